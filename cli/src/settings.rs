//! The configuration of everything, read and checked before anything else happens.

use std::path::PathBuf;

use accounts::{AccountsConfig, PolicyConfig};
use analytics_api::AnalyticsConfig;
use gateway::GatewayConfig;
use publisher_api::{AuthConfig, PublisherConfig, SmtpConfig};
use receipt::Limits;
use receipt_log::{EmbeddedConfig, KafkaConfig};
use service::config::{ConfigError, ConfigFaults, Source, known_keys};
use service::data::DataConfig;
use service::rate_limit::{QuotasConfig, RedisConfig};
use service::telemetry::TelemetryConfig;
use verifier::VerifierConfig;
use warehouse::WarehouseConfig;
use writer::WriterConfig;

use crate::data_dir::DataDir;
use crate::failure::CommandFailure;

/// Bytes of a record beside its body: more than the log's own fields can take.
const RECORD_FRAME_BYTES: usize = 4 << 10;

/// Size of verdicts beyond three times the bodies that they are about, in bytes.
const VERDICTS_FRAME_BYTES: usize = 4 << 20;
/// Memory that the embedded engine takes for an insert, beside that for its receipts. Measured with
/// libchdb 26.7: 9 MB, and 4 to 6 KB a receipt.
const INSERT_BYTES: u64 = 16 << 20;
/// Memory that the embedded engine takes for a receipt of an insert.
const INSERT_RECEIPT_BYTES: u64 = 6 << 10;

/// The options that name configuration and data directory.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingsArgs {
    /// The configuration file; RECEIPTS_<SECTION>_<KEY> variables go over it [env: RECEIPTS_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory [default: data.dir of the configuration, ./data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Every section.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `[data]`, or `--data`.
    pub data: DataDir,
    /// `[gateway]`.
    pub gateway: GatewayConfig,
    /// `[verifier]`.
    pub verifier: VerifierConfig,
    /// `[writer]`.
    pub writer: WriterConfig,
    /// `[analytics]`.
    pub analytics: AnalyticsConfig,
    /// `[publisher]`.
    pub publisher: PublisherConfig,
    /// `[auth]`.
    pub auth: AuthConfig,
    /// `[smtp]`.
    pub smtp: SmtpConfig,
    /// `[outbound]`.
    pub outbound: outbound::Config,
    /// `[log]`.
    pub log: EmbeddedConfig,
    /// `[verdicts]`.
    pub verdicts: EmbeddedConfig,
    /// `[kafka]`.
    pub kafka: KafkaConfig,
    /// `[warehouse]`.
    pub warehouse: WarehouseConfig,
    /// `[accounts]`.
    pub accounts: AccountsConfig,
    /// `[policy]`.
    pub policy: PolicyConfig,
    /// `[telemetry]`.
    pub telemetry: TelemetryConfig,
    /// `[limits]`.
    pub limits: Limits,
    /// `[quotas]`.
    pub quotas: QuotasConfig,
    /// `[redis]`.
    pub redis: RedisConfig,
}

impl SettingsArgs {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn load(&self) -> Result<Settings, CommandFailure> {
        let settings = self.read()?;
        settings.fit()?;
        Ok(settings)
    }

    /// Reads everything, and checks each section by itself.
    ///
    /// # Errors
    /// Every fault of a section at once.
    pub fn read(&self) -> Result<Settings, CommandFailure> {
        let source = Source::load(self.config.as_deref()).map_err(CommandFailure::input)?;
        let mut settings = Settings::read(source).map_err(CommandFailure::input)?;
        if let Some(data) = &self.data {
            settings.data = DataDir::new(data)?;
        }
        Ok(settings)
    }
}

impl Settings {
    /// Every section of `source`, each checked by itself.
    ///
    /// # Errors
    /// Every fault found.
    pub fn read(mut source: Source) -> Result<Self, ConfigError> {
        let data: DataConfig = source.section("data");
        let embedded = |log: &EmbeddedConfig, faults: &mut ConfigFaults| {
            for fault in log.validate().err().unwrap_or_default() {
                faults.push("", fault);
            }
        };
        let settings = Self {
            data: DataDir::new(&data.dir).unwrap_or_else(|_| DataDir::here()),
            gateway: source.section("gateway"),
            verifier: source.section("verifier"),
            writer: source.section("writer"),
            analytics: source.section("analytics"),
            publisher: source.section("publisher"),
            auth: source.section("auth"),
            smtp: source.section("smtp"),
            outbound: source.section_with("outbound", |outbound: &outbound::Config, faults| {
                for (key, fault) in outbound.validate().err().unwrap_or_default() {
                    faults.push(key, fault);
                }
            }),
            log: source.section_with("log", embedded),
            verdicts: source.section_from("verdicts", EmbeddedConfig::verdicts, embedded),
            kafka: source.section_with("kafka", |kafka: &KafkaConfig, faults| {
                for (key, fault) in kafka.validate().err().unwrap_or_default() {
                    faults.push(key, fault);
                }
            }),
            warehouse: source.section_with("warehouse", |warehouse: &WarehouseConfig, faults| {
                if let Err(fault) = warehouse.validate() {
                    faults.push("", fault);
                }
            }),
            accounts: source.section_with("accounts", |accounts: &AccountsConfig, faults| {
                for (key, fault) in accounts.faults() {
                    faults.push(key, fault);
                }
            }),
            policy: source.section_with("policy", |policy: &PolicyConfig, faults| {
                for (key, fault) in policy.faults() {
                    faults.push(key, fault);
                }
            }),
            telemetry: source.section("telemetry"),
            limits: source.section_with("limits", |limits: &Limits, faults| {
                if let Err(fault) = limits.validate() {
                    faults.push("", fault);
                }
            }),
            quotas: source.section("quotas"),
            redis: source.section("redis"),
        };
        source.finish()?;
        Ok(settings)
    }

    /// Checks that no section can make alone.
    fn fit(&self) -> Result<(), CommandFailure> {
        self.fit_gateway()?;
        self.fit_shards()?;
        self.fit_verdicts()?;
        self.fit_memory()?;
        let needed = self.record_bytes();
        if self.warehouse.insert_bytes_max < needed as u64 {
            return Err(CommandFailure::Input(format!(
                "warehouse.insert_bytes_max is {}, must be at least {needed}: a rejected batch is one row",
                self.warehouse.insert_bytes_max
            )));
        }
        Ok(())
    }

    /// A gateway and its log must be able to take the largest batch.
    ///
    /// # Errors
    /// The sections that don't fit together, and what is allowed.
    pub fn fit_gateway(&self) -> Result<(), CommandFailure> {
        self.gateway.fits(&self.limits).map_err(CommandFailure::Input)?;
        let kafka = self
            .kafka
            .fits(self.gateway.append_wait_ms_max, self.limits.batch_bytes_max);
        kafka.map_err(CommandFailure::Input)?;
        let needed = self.record_bytes();
        if !self.kafka.is_given() && self.log.record_bytes_max < needed {
            return Err(CommandFailure::Input(format!(
                "log.record_bytes_max is {}, must be at least {needed}: limits.batch_bytes_max and {RECORD_FRAME_BYTES} bytes more",
                self.log.record_bytes_max
            )));
        }
        Ok(())
    }

    /// Bytes of the largest record of `receipts`.
    fn record_bytes(&self) -> usize {
        self.limits.batch_bytes_max.saturating_add(RECORD_FRAME_BYTES)
    }

    /// Shards are partitions of a topic.
    ///
    /// # Errors
    /// There are several, on the embedded log.
    pub fn fit_shards(&self) -> Result<(), CommandFailure> {
        if !self.kafka.is_given() && !self.warehouse.shards.is_empty() {
            let reason = "warehouse.shards needs kafka.brokers: the embedded log has one shard";
            return Err(CommandFailure::Input(reason.to_owned()));
        }
        Ok(())
    }

    /// A record of `verdicts` must be able to hold the verdicts on one record of `receipts`, and
    /// one append those on a block.
    ///
    /// # Errors
    /// The limit that is too small, and what is allowed.
    pub fn fit_verdicts(&self) -> Result<(), CommandFailure> {
        let batch = self.limits.batch_bytes_max;
        let record = verdicts_bytes(batch);
        let of_record = "3 x limits.batch_bytes_max and 4194304 bytes more";
        if self.kafka.is_given() {
            if self.kafka.verdicts_bytes_max < record {
                return Err(CommandFailure::Input(format!(
                    "kafka.verdicts_bytes_max is {}, must be at least {record}: {of_record}",
                    self.kafka.verdicts_bytes_max
                )));
            }
            return Ok(());
        }
        if self.verdicts.record_bytes_max < record {
            return Err(CommandFailure::Input(format!(
                "verdicts.record_bytes_max is {}, must be at least {record}: {of_record}",
                self.verdicts.record_bytes_max
            )));
        }
        // A block is closed by the record that reaches its limit.
        let block = verdicts_bytes(self.verifier.block_bytes_max.saturating_add(batch));
        for (key, given) in [
            ("queue_bytes_max", self.verdicts.queue_bytes_max as u64),
            ("segment_bytes", self.verdicts.segment_bytes),
        ] {
            if given < block as u64 {
                return Err(CommandFailure::Input(format!(
                    "verdicts.{key} is {given}, must be at least {block}: 3 x (verifier.block_bytes_max and \
                     limits.batch_bytes_max) and 4194304 bytes more"
                )));
            }
        }
        Ok(())
    }

    /// The embedded engine must be able to insert the largest batch: the writer divides what
    /// doesn't fit down to one record. A statement gets half of the memory.
    fn fit_memory(&self) -> Result<(), CommandFailure> {
        let receipts = self.limits.batch_receipts_max as u64;
        let needed = 2 * (INSERT_BYTES + receipts.saturating_mul(INSERT_RECEIPT_BYTES));
        let given = self.warehouse.memory_bytes_max;
        if self.warehouse.url.is_none() && given < needed {
            return Err(CommandFailure::Input(format!(
                "warehouse.memory_bytes_max is {given}, must be at least {needed}: twice what an insert of \
                 limits.batch_receipts_max receipts takes"
            )));
        }
        Ok(())
    }

    /// Whether a PostgreSQL has the account store.
    #[must_use]
    pub fn has_account_server(&self) -> bool {
        let url = self.accounts.url.as_deref();
        url.is_some_and(|url| !url.trim().is_empty())
    }

    /// Checks that gateways on Kafka have keys to sign acknowledgements with. Commands that run no
    /// gateway don't need them.
    ///
    /// # Errors
    /// No key is listed.
    pub fn has_shared_keys(&self) -> Result<(), CommandFailure> {
        if !self.kafka.is_given() {
            return Ok(());
        }
        self.gateway.has_shared_keys().map_err(CommandFailure::Input)
    }
}

/// Bytes of the verdicts on bodies of `body_bytes`: rows hold the receipt as received and its
/// values beside.
fn verdicts_bytes(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(3).saturating_add(VERDICTS_FRAME_BYTES)
}

/// Every section with the keys it may have, for the test that holds the example file against them.
#[must_use]
pub fn keys() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("data", known_keys::<DataConfig>()),
        ("gateway", known_keys::<GatewayConfig>()),
        ("verifier", known_keys::<VerifierConfig>()),
        ("writer", known_keys::<WriterConfig>()),
        ("analytics", known_keys::<AnalyticsConfig>()),
        ("publisher", known_keys::<PublisherConfig>()),
        ("auth", known_keys::<AuthConfig>()),
        ("outbound", known_keys::<outbound::Config>()),
        ("smtp", known_keys::<SmtpConfig>()),
        ("log", known_keys::<EmbeddedConfig>()),
        ("verdicts", known_keys::<EmbeddedConfig>()),
        ("kafka", known_keys::<KafkaConfig>()),
        ("warehouse", known_keys::<WarehouseConfig>()),
        ("accounts", known_keys::<AccountsConfig>()),
        ("policy", known_keys::<PolicyConfig>()),
        ("telemetry", known_keys::<TelemetryConfig>()),
        ("limits", known_keys::<Limits>()),
        ("quotas", known_keys::<QuotasConfig>()),
        ("redis", known_keys::<RedisConfig>()),
    ]
}
