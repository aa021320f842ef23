//! Creating, describing and checking topics.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    config::{FromClientConfig, RDKafkaLogLevel},
    error::RDKafkaErrorCode,
    metadata::MetadataTopic,
};

use super::{
    client,
    plan::{TopicPlan, epoch_of, outlive},
};
use crate::kafka_config::{KafkaConfig, KafkaOpenError, WrongSetting};

/// Asks and tells the brokers about topics.
pub(super) struct Topics {
    admin: AdminClient<DefaultClientContext>,
    brokers: String,
    wait_max: Duration,
}

impl Topics {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, KafkaOpenError> {
        let mut settings = client::base(config, "admin");
        // Nobody serves this client's log lines and statistics, so there must be none.
        settings.set_log_level(RDKafkaLogLevel::Emerg);
        settings.set("statistics.interval.ms", "0");
        let admin = AdminClient::from_config(&settings).map_err(|error| KafkaOpenError::Client(error.to_string()))?;
        Ok(Self {
            admin,
            brokers: config.brokers.clone(),
            wait_max: Duration::from_millis(config.request_wait_ms_max),
        })
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.wait_max))
            .operation_timeout(Some(self.wait_max))
    }

    /// Creates the topic; one that exists already, by another process's creation too, stays as it
    /// is.
    pub(super) fn create(&self, plan: &TopicPlan) -> Result<(), KafkaOpenError> {
        let refused = |detail: String| KafkaOpenError::Refused {
            topic: plan.name.clone(),
            what: "created",
            detail,
        };
        let given = plan.given();
        let fixed = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let replication = TopicReplication::Fixed(fixed(plan.replication_factor));
        let topic = NewTopic::new(&plan.name, fixed(plan.partitions), replication);
        let topic = given.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        let created = block_on(self.admin.create_topics([&topic], &self.options()));
        match created.map_err(|error| refused(error.to_string()))?.pop() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) | Some(Ok(_)) => Ok(()),
            Some(Err((_, code))) => {
                let mut detail = code.to_string();
                if code == RDKafkaErrorCode::InvalidReplicationFactor {
                    detail += ": fewer brokers than kafka.replication_factor are up";
                }
                Err(refused(detail))
            }
            None => Err(refused("no answer about it".to_owned())),
        }
    }

    /// The topic is missing and isn't to be created here.
    pub(super) fn missing(&self, plan: &TopicPlan) -> KafkaOpenError {
        KafkaOpenError::Missing {
            topic: plan.name.clone(),
            command: plan.creating_command(&self.brokers),
        }
    }

    fn describe(&self, topic: &str) -> Result<ConfigResource, KafkaOpenError> {
        let refused = |detail: String| KafkaOpenError::Refused {
            topic: topic.to_owned(),
            what: "described",
            detail,
        };
        let described = block_on(
            self.admin
                .describe_configs([&ResourceSpecifier::Topic(topic)], &self.options()),
        );
        let described = described.map_err(|error| refused(error.to_string()))?.pop();
        let described = described.ok_or_else(|| refused("no answer about it".to_owned()))?;
        described.map_err(|code| refused(code.to_string()))
    }

    /// Checks the topic's settings; its epoch if it has one.
    pub(super) fn check(&self, plan: &TopicPlan, found: &MetadataTopic) -> Result<Option<u32>, KafkaOpenError> {
        let described = self.describe(&plan.name)?;
        if let Some(faults) = plan.faults(&described, &self.brokers) {
            return Err(faults);
        }
        let partitions = found.partitions().len();
        if partitions < plan.partitions_min as usize {
            return Err(KafkaOpenError::Settings {
                topic: plan.name.clone(),
                wrong: vec![WrongSetting {
                    name: "partitions".to_owned(),
                    found: partitions.to_string(),
                    wanted: plan.partitions_min.to_string(),
                    reason: "kafka.verdicts_partitions says so: each logical shard has one",
                }],
                command: format!(
                    "kafka-topics.sh --bootstrap-server {} --alter --topic {} --partitions {}",
                    self.brokers, plan.name, plan.partitions_min
                ),
            });
        }
        let copies = |partition: &rdkafka::metadata::MetadataPartition| match partition.error() {
            None => partition.replicas().len(),
            Some(_) => usize::MAX,
        };
        let least = found.partitions().iter().map(copies).min().unwrap_or(usize::MAX);
        if least < plan.replication_factor as usize {
            return Err(KafkaOpenError::Settings {
                topic: plan.name.clone(),
                wrong: vec![WrongSetting {
                    name: "replication factor".to_owned(),
                    found: least.to_string(),
                    wanted: plan.replication_factor.to_string(),
                    reason: "kafka.replication_factor says so; less is acknowledged and lost with one disk",
                }],
                command: format!(
                    "kafka-reassign-partitions.sh --bootstrap-server {} --execute --reassignment-json-file FILE",
                    self.brokers
                ),
            });
        }
        let epoch = epoch_of(&described);
        if let Some(epoch) = epoch {
            outlive(epoch);
        }
        Ok(epoch)
    }

    /// The topic's epoch now.
    pub(super) fn epoch(&self, topic: &str) -> Result<Option<u32>, KafkaOpenError> {
        self.describe(topic).map(|described| epoch_of(&described))
    }
}

/// Waits for an answer of the admin client's, which come from a thread of its own. Works inside and
/// outside of a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}
