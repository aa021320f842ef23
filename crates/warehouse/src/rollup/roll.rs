//! A roll: a plan carried out.

use std::time::{Duration, Instant};

use super::pieces::Piece;
use super::plan::RollPlan;
use super::state::State;
use super::tidy::Garbage;
use crate::client::Call;
use crate::{Warehouse, WarehouseError};

/// The pauses of one roll.
const PAUSES_MAX: Duration = Duration::from_secs(60);

/// What a roll did, and how things stand after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rolled {
    /// Its number.
    pub number: u32,
    /// Whether its state counts: no other roll ended meanwhile. What it made is passed over otherwise.
    pub counts: bool,
    /// How things stand.
    pub standing: RollupStanding,
    /// How long its pauses were.
    pub paused: Duration,
}

/// How the rollups stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RollupStanding {
    /// The roll that said so; 0 if there was none.
    pub version: u32,
    /// The first hour that is rolled, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// The end of the last one.
    pub to_ms: i64,
    /// Hours of publishers in between that wait to be made anew.
    pub dirty_hours: u64,
    /// Erasures that keep their publishers' hours from being used.
    pub erasing: u64,
    /// Up to where the log is accounted for.
    pub committed: Vec<crate::CommittedOffset>,
}

/// One statement of a roll.
pub struct RollStep(Does);

enum Does {
    Tidy(Garbage),
    Make(Call),
    Say { text: String, number: u32, base: u32 },
}

impl RollPlan {
    /// The statements in their order. Any number of them may be left undone, from the end: only the last one makes those before it count.
    ///
    /// # Errors
    /// The number isn't above [`number_above`](Self::number_above).
    pub fn into_steps(self, number: u32) -> Result<Vec<RollStep>, WarehouseError> {
        if number <= self.above {
            let what = format!("roll {number} is not above {}, the last one", self.above);
            return Err(WarehouseError::Config(what));
        }
        let mut steps: Vec<RollStep> = Vec::new();
        steps.extend(self.garbage.map(|garbage| RollStep(Does::Tidy(garbage))));
        let made = self.pieces.iter().flat_map(|piece: &Piece| piece.statements(number));
        steps.extend(made.map(|call| RollStep(Does::Make(call))));
        let state = self.next.made_by(number);
        steps.push(RollStep(Does::Say {
            text: serde_json::to_string(&state).map_err(|error| WarehouseError::Config(error.to_string()))?,
            number,
            base: self.above,
        }));
        Ok(steps)
    }
}

impl Warehouse {
    /// Carries a plan out under a number that no other roll has or had, with pauses after what makes rows, so that it is at work so much of the
    /// time: from 1 to 100 percent. Of more than a minute of them the rest is left to whoever rolls: until a roll's state is written, views
    /// are made of all marks since the one before.
    ///
    /// # Errors
    /// [`WarehouseError`]; then nothing that was made counts.
    pub async fn roll(&self, plan: RollPlan, number: u32, percent_max: u32) -> Result<Rolled, WarehouseError> {
        let standing = plan.next.clone().made_by(number).standing();
        let percent_max = percent_max.clamp(1, 100);
        let mut paused = Duration::ZERO;
        for step in plan.into_steps(number)? {
            let (began, makes) = (Instant::now(), matches!(step.0, Does::Make(_)));
            self.roll_step(step).await?;
            if makes {
                let pause = began.elapsed() * (100 - percent_max) / percent_max;
                let pause = pause.min(PAUSES_MAX - paused);
                tokio::time::sleep(pause).await;
                paused += pause;
            }
        }
        let counts = self.rollup_version().await? == number;
        Ok(Rolled {
            number,
            counts,
            standing,
            paused,
        })
    }

    /// Runs one statement of a roll.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn roll_step(&self, step: RollStep) -> Result<(), WarehouseError> {
        match step.0 {
            Does::Tidy(garbage) => self.tidy_rollups(&garbage).await,
            Does::Make(call) => self.execute("rollup_make", call).await,
            Does::Say { text, number, base } => {
                let sql = "INSERT INTO rollup_states (lineage, state)
                    SELECT 0, ({number:UInt32}, toUInt32(toUnixTimestamp(now())), {text:String})
                    WHERE (SELECT tupleElement(max(state), 1) FROM rollup_states) = {base:UInt32}";
                let call = Call::new(sql)
                    .with("number", number)
                    .with("text", text)
                    .with("base", base);
                self.execute("rollup_say", call).await
            }
        }
    }

    /// The version of the newest state; 0 without one.
    async fn rollup_version(&self) -> Result<u32, WarehouseError> {
        let call = Call::new("SELECT tupleElement(max(state), 1) FROM rollup_states");
        self.one("rollup_say", call).await
    }

    /// The greatest number that any roll left anything of, so that no other takes it. Goes over all rolled rows.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn rollup_number_max(&self) -> Result<u32, WarehouseError> {
        let sql = "SELECT max(version) FROM (SELECT max(version) AS version FROM usage_by_client
            UNION ALL SELECT max(version) FROM usage_by_entry UNION ALL SELECT max(version) FROM rollup_buckets
            UNION ALL SELECT tupleElement(max(state), 1) FROM rollup_states)";
        self.one("rollup_say", Call::new(sql).slow()).await
    }

    /// How things stand by the newest state.
    ///
    /// # Errors
    /// [`WarehouseError`].
    pub async fn rollup_standing(&self) -> Result<RollupStanding, WarehouseError> {
        let call = Call::new("SELECT tupleElement(max(state), 3) FROM rollup_states");
        let text: String = self.one("rollup_say", call).await?;
        let state: Option<State> = serde_json::from_str(&text).ok();
        Ok(state.map(|state| state.standing()).unwrap_or_default())
    }
}

impl State {
    fn standing(&self) -> RollupStanding {
        let ms = |hour: u32| i64::from(hour) * 3_600_000;
        let committed = self.committed.iter();
        let committed = committed.map(|&(epoch, partition, next_offset)| crate::CommittedOffset {
            epoch,
            partition,
            next_offset,
        });
        RollupStanding {
            version: self.version,
            from_ms: ms(self.window.0),
            to_ms: ms(self.window.1),
            dirty_hours: self.dirty.values().map(super::Hours::count).sum(),
            erasing: self.erasing.len() as u64,
            committed: committed.collect(),
        }
    }
}
