//! Planning compared with its slow twin, decisions from events, forecasts on recorded trainings.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod allocator;
mod broken;
mod closed;
mod exact;
mod forecast;
mod noisy;
mod planning;
mod played;
mod worse;
