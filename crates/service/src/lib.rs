//! What every service needs and none owns: configuration, telemetry, health, shutdown, problem+json, limits.
