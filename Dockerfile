# Images of the services. Each holds one program, the libraries that it is linked to and the
# authorities to trust: no shell, no package manager, nothing to write to. They run as 65532 on a
# read-only root file system.
#
#   docker build --target gateway --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) -t receipts-gateway:0.1.0 .
#
# Targets: gateway, verifier, writer, analytics-api, publisher-api, webhook (a publisher's
# receiver), cli (the `receipts` command; the chart's migrations), all-in-one (the command with
# libchdb; the only one that needs it). deploy/images builds them without a Docker engine.
#
# BUILDER: Debian 12 with Rust. BINARIES and ENGINE: a stage, or an image with /out and /engine as
# the stages of these names leave them, to take what was built elsewhere.
ARG BUILDER=rust:1.95-bookworm
ARG BINARIES=build
ARG ENGINE=engine

FROM ${BUILDER} AS build
RUN deps="binutils ca-certificates cmake g++ libssl-dev make pkg-config python3"; \
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $deps > /dev/null && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# `receipts --version` shows it; the checkout's own history isn't copied.
ARG REVISION=unknown
RUN RECEIPTS_BUILD_COMMIT=$REVISION deploy/build-out /out

# libchdb, whose digest the script checks.
FROM ${BUILDER} AS engine
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates npm openssl > /dev/null && rm -rf /var/lib/apt/lists/*
COPY scripts/fetch-chdb /scripts/fetch-chdb
RUN XDG_CACHE_HOME=/cache /scripts/fetch-chdb && mkdir /engine && mv /cache/receipts/libchdb-*/libchdb.so /engine/

FROM ${BINARIES} AS binaries

FROM ${ENGINE} AS warehouse

# The files beside the programs, a folder for each.
FROM ${BUILDER} AS roots
COPY deploy/image-root /image-root
COPY --from=binaries /out /out
RUN set -e; for program in /out/bin/*; do /image-root "$program" "/roots/${program##*/}"; done

FROM roots AS root-with-engine
COPY --from=warehouse /engine /engine
RUN /image-root /out/bin/receipts /roots/all-in-one /engine/libchdb.so

FROM scratch AS base
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Receipts" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A variable is stronger than a configuration file: the chart sets those named RECEIPTS_ from its
# own configuration again.
ENV RECEIPTS_TELEMETRY_LOG_FORMAT=json \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/bin
WORKDIR /
USER 65532:65532
EXPOSE 9090
STOPSIGNAL SIGTERM

FROM base AS gateway
LABEL org.opencontainers.image.title="receipts-gateway" org.opencontainers.image.description="Takes signed usage receipts over HTTP"
COPY --from=roots /roots/receipts-gateway /
EXPOSE 8080
ENTRYPOINT ["/usr/bin/receipts-gateway"]

FROM base AS verifier
LABEL org.opencontainers.image.title="receipts-verifier" org.opencontainers.image.description="Verifies receipts and appends verdicts"
COPY --from=roots /roots/receipts-verifier /
ENTRYPOINT ["/usr/bin/receipts-verifier"]

FROM base AS writer
LABEL org.opencontainers.image.title="receipts-writer" org.opencontainers.image.description="Inserts verdicts into ClickHouse"
COPY --from=roots /roots/receipts-writer /
ENTRYPOINT ["/usr/bin/receipts-writer"]

FROM base AS analytics-api
LABEL org.opencontainers.image.title="receipts-analytics-api" org.opencontainers.image.description="Answers publishers' questions"
COPY --from=roots /roots/receipts-analytics-api /
EXPOSE 8081
ENTRYPOINT ["/usr/bin/receipts-analytics-api"]

FROM base AS publisher-api
LABEL org.opencontainers.image.title="receipts-publisher-api" org.opencontainers.image.description="Keys, domains, entries and rights of publishers"
COPY --from=roots /roots/receipts-publisher-api /
EXPOSE 8082
ENTRYPOINT ["/usr/bin/receipts-publisher-api"]

FROM base AS webhook
LABEL org.opencontainers.image.title="receipts-webhook" org.opencontainers.image.description="A publisher's receiver of delivered receipts"
COPY --from=roots /roots/receipts-webhook /
# Its log: mount a volume there.
ENV RECEIPTS_DATA_DIR=/var/lib/receipts
EXPOSE 8080
ENTRYPOINT ["/usr/bin/receipts-webhook"]

FROM base AS cli
LABEL org.opencontainers.image.title="receipts-cli" org.opencontainers.image.description="The receipts command, without the embedded engine"
COPY --from=roots /roots/receipts /
ENTRYPOINT ["/usr/bin/receipts"]

FROM base AS all-in-one
LABEL org.opencontainers.image.title="receipts-all-in-one" org.opencontainers.image.description="Every service in one process, on embedded engines"
COPY --from=root-with-engine /roots/all-in-one /
# No VOLUME: what is acknowledged belongs on a disk that somebody chose, not on one that goes with
# the container.
#   docker run --name receipts -p 127.0.0.1:8080:8080 -v receipts:/var/lib/receipts \
#     receipts-all-in-one:0.1.0
#   docker exec receipts receipts keys create --domain example.com
ENV RECEIPTS_WAREHOUSE_LIBRARY=/usr/lib/libchdb.so \
    RECEIPTS_DATA_DIR=/var/lib/receipts \
    RECEIPTS_GATEWAY_LISTEN=0.0.0.0:8080 \
    RECEIPTS_TELEMETRY_METRICS_LISTEN=0.0.0.0:9090
EXPOSE 8080
ENTRYPOINT ["/usr/bin/receipts"]
CMD ["up"]
