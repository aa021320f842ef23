//! The configuration of everything, read and checked before anything else happens.

use std::path::PathBuf;

use accounts::{AccountsConfig, PolicyConfig};
use analytics_api::AnalyticsConfig;
use config::{ConfigError, ConfigFaults, Source, valid_keys};
use gateway::GatewayConfig;
use publisher_api::{AuthConfig, PublisherConfig, SmtpConfig};
use receipt::Limits;
use receipt_log::{EmbeddedConfig, KafkaConfig, VerdictsConfig};
use service::data::DataConfig;
use service::rate_limit::{QuotasConfig, RedisConfig};
use service::reload;
use service::telemetry::{self, TelemetryConfig};
use verifier::VerifierConfig;
use warehouse::WarehouseConfig;
use writer::WriterConfig;

use crate::data_dir::DataDir;
use crate::failure::CommandFailure;
use crate::terminal;

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

/// Declares [`Settings`] from its sections, each with the name that it has in the file.
macro_rules! settings {
    ($($name:ident: $section:ty,)*) => {
        /// Every section.
        #[derive(Debug, Clone)]
        pub struct Settings {
            /// `[data]`, or `--data`.
            pub data: DataDir,
            $(
                #[doc = concat!("`[", stringify!($name), "]`.")]
                pub $name: $section,
            )*
        }

        impl Settings {
            fn of(source: &mut Source) -> Self {
                let data: DataConfig = source.section("data");
                Self {
                    data: DataDir::new(&data.dir).unwrap_or_else(|_| DataDir::here()),
                    $($name: source.section(stringify!($name)),)*
                }
            }

            /// Every section as TOML, without its secrets.
            ///
            /// # Errors
            /// A value isn't one of TOML.
            pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
                let dir = self.data.root().to_owned();
                let mut text = format!("[data]\n{}\n", toml::to_string(&DataConfig { dir })?);
                $(text.push_str(&format!("[{}]\n{}\n", stringify!($name), toml::to_string(&self.$name)?));)*
                Ok(text)
            }
        }

        /// Every section with the keys it may have, for the test of the example file.
        #[must_use]
        pub fn keys() -> Vec<(&'static str, &'static [&'static str])> {
            vec![
                ("data", valid_keys::<DataConfig>()),
                $((stringify!($name), valid_keys::<$section>()),)*
            ]
        }
    };
}

settings! {
    gateway: GatewayConfig,
    verifier: VerifierConfig,
    writer: WriterConfig,
    analytics: AnalyticsConfig,
    publisher: PublisherConfig,
    auth: AuthConfig,
    smtp: SmtpConfig,
    outbound: outbound::Config,
    log: EmbeddedConfig,
    verdicts: VerdictsConfig,
    kafka: KafkaConfig,
    warehouse: WarehouseConfig,
    accounts: AccountsConfig,
    policy: PolicyConfig,
    telemetry: TelemetryConfig,
    limits: Limits,
    quotas: QuotasConfig,
    redis: RedisConfig,
}

impl SettingsArgs {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Every fault of the configuration at once.
    pub fn load(&self) -> Result<Settings, CommandFailure> {
        self.read(Settings::check)
    }

    /// Reads everything and checks each section by itself, and then what `check` does.
    ///
    /// # Errors
    /// Every fault found.
    pub fn read(&self, check: impl FnOnce(&Settings, &mut ConfigFaults)) -> Result<Settings, CommandFailure> {
        let (settings, source) = self.sections()?;
        settings.checked(source, check).map_err(CommandFailure::input)
    }

    /// As [`SettingsArgs::read`], for a process that serves: begins its log. Errors have the log's
    /// format from here on.
    ///
    /// # Errors
    /// Every fault found.
    pub fn start(&self, check: impl FnOnce(&Settings, &mut ConfigFaults)) -> Result<Settings, CommandFailure> {
        let (settings, source) = self.sections()?;
        terminal::set_error_format(settings.telemetry.log_format);
        let settings = settings.checked(source, check).map_err(CommandFailure::input)?;
        telemetry::init_logging(&settings.telemetry).map_err(CommandFailure::input)?;
        let args = self.clone();
        reload::register("telemetry.log_level", move || args.reload_log_level());
        Ok(settings)
    }

    /// Reads everything again, and uses its log level alone: no other setting can change in a
    /// running process.
    fn reload_log_level(&self) -> Result<(), String> {
        let settings = self.read(|_, _| {}).map_err(|failure| failure.to_string())?;
        telemetry::reload_log_level(&settings.telemetry).map_err(|error| error.to_string())
    }

    fn sections(&self) -> Result<(Settings, Source), CommandFailure> {
        let mut source = Source::load(self.config.as_deref()).map_err(CommandFailure::input)?;
        let mut settings = Settings::of(&mut source);
        if let Some(data) = &self.data {
            settings.data = DataDir::new(data)?;
        }
        Ok((settings, source))
    }
}

impl Settings {
    /// Every section of `source`, each checked by itself, and then by `check`.
    ///
    /// # Errors
    /// Every fault found.
    pub fn read(mut source: Source, check: impl FnOnce(&Self, &mut ConfigFaults)) -> Result<Self, ConfigError> {
        Self::of(&mut source).checked(source, check)
    }

    fn checked(self, source: Source, check: impl FnOnce(&Self, &mut ConfigFaults)) -> Result<Self, ConfigError> {
        source.finish_with(|faults| check(&self, faults))?;
        Ok(self)
    }

    /// Checks that no section can make alone.
    pub fn check(&self, faults: &mut ConfigFaults) {
        self.check_gateway(faults);
        self.check_shards(faults);
        self.check_verdicts(faults);
        self.check_memory(faults);
        self.check_sign_in(faults);
        faults.at_least(
            "warehouse.insert_bytes_max",
            self.warehouse.insert_bytes_max,
            self.record_bytes() as u64,
            "a rejected batch is one row",
        );
    }

    /// Checks what `receipts up` needs.
    pub fn check_up(&self, faults: &mut ConfigFaults) {
        self.check(faults);
        self.check_shared_keys(faults);
    }

    /// A gateway and its log must be able to take the largest batch.
    pub fn check_gateway(&self, faults: &mut ConfigFaults) {
        self.gateway.check_limits(&self.limits, faults);
        let (wait_ms, batch) = (self.gateway.append_wait_ms_max, self.limits.batch_bytes_max);
        self.kafka.check_gateway(wait_ms, batch, faults);
        if !self.kafka.is_shared() {
            faults.at_least(
                "log.record_bytes_max",
                self.log.record_bytes_max,
                self.record_bytes(),
                &format!("limits.batch_bytes_max and {RECORD_FRAME_BYTES} bytes more"),
            );
        }
    }

    /// Bytes of the largest record of `receipts`.
    fn record_bytes(&self) -> usize {
        self.limits.batch_bytes_max.saturating_add(RECORD_FRAME_BYTES)
    }

    /// The identity provider sends people back to an address that it has registered, and their
    /// browsers take a session's cookie only by HTTPS or from this machine.
    fn check_sign_in(&self, faults: &mut ConfigFaults) {
        if self.auth.client_id.is_empty() {
            return;
        }
        let url = self.publisher.public_url.as_deref();
        let loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
        let is_good = |url: &str| url.starts_with("https://") || loopback.iter().any(|host| url.starts_with(host));
        faults.require(
            "publisher.public_url",
            url.is_some_and(is_good),
            "is needed with auth.client_id, and must begin with https:// (or name this machine): people come back to it",
        );
    }

    /// Shards are partitions of a topic.
    pub fn check_shards(&self, faults: &mut ConfigFaults) {
        faults.require(
            "warehouse.shards",
            self.kafka.is_shared() || self.warehouse.shards.is_empty(),
            "needs kafka.brokers: the embedded log has one shard",
        );
    }

    /// A record of `verdicts` must be able to hold the verdicts on one record of `receipts`, and
    /// one append those on a block.
    pub fn check_verdicts(&self, faults: &mut ConfigFaults) {
        let batch = self.limits.batch_bytes_max;
        let record = verdicts_bytes(batch);
        let of_record = "3 x limits.batch_bytes_max and 4194304 bytes more";
        if self.kafka.is_shared() {
            let given = self.kafka.verdicts_bytes_max;
            faults.at_least("kafka.verdicts_bytes_max", given, record, of_record);
            return;
        }
        let verdicts = &self.verdicts.0;
        let given = verdicts.record_bytes_max;
        faults.at_least("verdicts.record_bytes_max", given, record, of_record);
        // A block is closed by the record that reaches its limit.
        let block = verdicts_bytes(self.verifier.block_bytes_max.saturating_add(batch)) as u64;
        for (key, given) in [
            ("verdicts.queue_bytes_max", verdicts.queue_bytes_max as u64),
            ("verdicts.segment_bytes", verdicts.segment_bytes),
        ] {
            let of_block = "3 x (verifier.block_bytes_max and limits.batch_bytes_max) and 4194304 bytes more";
            faults.at_least(key, given, block, of_block);
        }
    }

    /// The embedded engine must be able to insert the largest batch: the writer divides what
    /// doesn't fit down to one record. A statement gets half of the memory.
    fn check_memory(&self, faults: &mut ConfigFaults) {
        if self.warehouse.url.is_some() {
            return;
        }
        let receipts = self.limits.batch_receipts_max as u64;
        faults.at_least(
            "warehouse.memory_bytes_max",
            self.warehouse.memory_bytes_max,
            2 * (INSERT_BYTES + receipts.saturating_mul(INSERT_RECEIPT_BYTES)),
            "twice what an insert of limits.batch_receipts_max receipts takes",
        );
    }

    /// Checks that gateways on Kafka have keys to sign acknowledgements with. Commands that run no
    /// gateway don't need them.
    pub fn check_shared_keys(&self, faults: &mut ConfigFaults) {
        if self.kafka.is_shared() {
            self.gateway.check_shared_keys(faults);
        }
    }
}

/// Bytes of the verdicts on bodies of `body_bytes`: rows hold the receipt as received and its
/// values beside.
fn verdicts_bytes(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(3).saturating_add(VERDICTS_FRAME_BYTES)
}
