# Images of the `receipts` command, which is every service. Each holds the command, the libraries
# that it is linked to and the authorities to trust: no shell, no package manager, nothing to write
# to. They run as 65532 on a read-only root file system.
#
#   docker build --target receipts --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) -t receipts:0.1.0 .
#   docker run receipts:0.1.0 serve gateway
#
# Targets: receipts (the services, the commands, the chart's migrations), all-in-one (the same with
# libchdb, for `receipts up`). deploy/images builds them without a Docker engine.
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

# The files beside the command.
FROM ${BUILDER} AS root
COPY deploy/image-root /image-root
COPY --from=binaries /out /out
RUN /image-root /out/bin/receipts /root-of-image

FROM root AS root-with-engine
COPY --from=warehouse /engine /engine
RUN /image-root /out/bin/receipts /root-of-image /engine/libchdb.so

FROM scratch AS base
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Receipts" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A variable is stronger than a configuration file: the chart sets those named RECEIPTS_ from its
# own configuration again. No VOLUME: what is acknowledged belongs on a disk that somebody chose,
# not on one that goes with the container.
ENV RECEIPTS_TELEMETRY_LOG_FORMAT=json \
    RECEIPTS_DATA_DIR=/var/lib/receipts \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/bin
WORKDIR /
USER 65532:65532
EXPOSE 9090
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/receipts"]

FROM base AS receipts
LABEL org.opencontainers.image.title="receipts" org.opencontainers.image.description="Every service and command; the engines are servers"
COPY --from=root /root-of-image /
EXPOSE 8080 8081 8082

FROM base AS all-in-one
LABEL org.opencontainers.image.title="receipts-all-in-one" org.opencontainers.image.description="Every service in one process, on embedded engines"
COPY --from=root-with-engine /root-of-image /
#   docker run --name receipts -p 127.0.0.1:8080:8080 -v receipts:/var/lib/receipts \
#     receipts-all-in-one:0.1.0
#   docker exec receipts receipts keys create --domain example.com
ENV RECEIPTS_WAREHOUSE_LIBRARY=/usr/lib/libchdb.so \
    RECEIPTS_GATEWAY_LISTEN=0.0.0.0:8080 \
    RECEIPTS_TELEMETRY_METRICS_LISTEN=0.0.0.0:9090
EXPOSE 8080
CMD ["up"]
