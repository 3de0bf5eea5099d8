//! Ctrl-C, SIGTERM, and SIGHUP without nohup: finish the record, then end; a second time, end at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cli::Failure;
use signal_hook::flag;

/// Whether a signal asked to end.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    flag: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

impl Signals {
    /// Starts to listen.
    pub fn listen() -> Result<Self, Failure> {
        let signals = Self::default();
        signals
            .register()
            .map_err(|error| Failure::Environment(format!("cannot listen for signals: {error}")))?;
        Ok(signals)
    }

    fn register(&self) -> io::Result<()> {
        for signal in cli::ending_signals() {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.flag))?;
            flag::register_usize(signal, Arc::clone(&self.number), signal as usize)?;
            flag::register(signal, Arc::clone(&self.flag))?;
        }
        Ok(())
    }

    /// The flag that a signal sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Fails if a signal has come.
    pub fn check(&self) -> Result<(), Failure> {
        if self.flag.load(Ordering::SeqCst) {
            return Err(self.failure());
        }
        Ok(())
    }

    /// How a signal ends the tool.
    pub fn failure(&self) -> Failure {
        let number = self.number.load(Ordering::SeqCst);
        Failure::Signal(u8::try_from(number).ok().filter(|n| *n > 0).unwrap_or(2))
    }
}
