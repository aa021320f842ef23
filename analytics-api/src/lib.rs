//! What publishers ask: dashboard, content, clients, time series, receipt lookup.
