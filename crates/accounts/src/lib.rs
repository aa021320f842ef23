//! Accounts, verified domains and API keys in SQL.
