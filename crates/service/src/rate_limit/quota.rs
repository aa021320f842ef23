//! Quotas, and the section of the configuration that sets them.

use serde::{Deserialize, Serialize};

use config::{ConfigFaults, Section};

/// Numbers of requests that an account may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests a minute.
    pub per_minute: u32,
    /// Requests a day (UTC); `None`: no limit.
    pub per_day: Option<u32>,
}

/// The section `[quotas]`: requests by tier, of an account. Its API keys share them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotasConfig {
    /// Requests a minute, tier free.
    pub free_per_minute: u32,
    /// Requests a day, tier free; 0: no limit.
    pub free_per_day: u32,
    /// Requests a minute, tier pro.
    pub pro_per_minute: u32,
    /// Requests a day, tier pro; 0: no limit.
    pub pro_per_day: u32,
    /// Requests a minute, tier enterprise.
    pub enterprise_per_minute: u32,
    /// Requests a day, tier enterprise; 0: no limit.
    pub enterprise_per_day: u32,
    /// Unknown API keys that one address, or one /64 of IPv6, may send in a minute.
    pub address_wrong_keys_per_minute: u32,
    /// Accounts counted one by one, and as many addresses; further ones share one count until
    /// others fall idle. About 100 bytes each.
    pub accounts_max: usize,
}

impl Default for QuotasConfig {
    fn default() -> Self {
        Self {
            free_per_minute: 60,
            free_per_day: 10_000,
            pro_per_minute: 300,
            pro_per_day: 100_000,
            enterprise_per_minute: 6_000,
            enterprise_per_day: 0,
            address_wrong_keys_per_minute: 30,
            accounts_max: 100_000,
        }
    }
}

impl Section for QuotasConfig {
    fn check(&self, faults: &mut ConfigFaults) {
        for (key, value) in [
            ("free_per_minute", self.free_per_minute),
            ("pro_per_minute", self.pro_per_minute),
            ("enterprise_per_minute", self.enterprise_per_minute),
            ("address_wrong_keys_per_minute", self.address_wrong_keys_per_minute),
        ] {
            faults.range(key, value, 1..=1_000_000_000);
        }
        faults.range("accounts_max", self.accounts_max, 1..=10_000_000);
    }
}

impl QuotasConfig {
    /// The quota of a tier by its name (`free`, `pro`, `enterprise`); of any other name, that of
    /// `free`.
    #[must_use]
    pub fn quota(&self, tier: &str) -> Quota {
        let (per_minute, per_day) = match tier {
            "enterprise" => (self.enterprise_per_minute, self.enterprise_per_day),
            "pro" => (self.pro_per_minute, self.pro_per_day),
            _ => (self.free_per_minute, self.free_per_day),
        };
        Quota {
            per_minute,
            per_day: (per_day > 0).then_some(per_day),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_have_the_interfaces_quotas() {
        let quotas = QuotasConfig::default();
        assert_eq!(
            quotas.quota("free"),
            Quota {
                per_minute: 60,
                per_day: Some(10_000)
            }
        );
        assert_eq!(
            quotas.quota("pro"),
            Quota {
                per_minute: 300,
                per_day: Some(100_000)
            }
        );
        assert_eq!(quotas.quota("enterprise").per_day, None);
        assert_eq!(quotas.quota("unheard of"), quotas.quota("free"));
    }
}
