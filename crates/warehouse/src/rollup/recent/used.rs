//! Who used something, what for and with what.

use std::sync::Arc;

use uuid::Uuid;

use crate::rollup::sums::Texts;

/// One way of using a publisher's content, which many receipts have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Use {
    pub(crate) client: Uuid,
    pub(crate) purpose: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) organization: Arc<str>,
    pub(crate) model: Arc<str>,
}

impl Use {
    /// One of what the warehouse says.
    pub(crate) fn of(client: Uuid, [purpose, name, organization, model]: [String; 4], texts: &mut Texts) -> Self {
        Self {
            client,
            purpose: texts.one(purpose),
            name: texts.one(name),
            organization: texts.one(organization),
            model: texts.one(model),
        }
    }
}
