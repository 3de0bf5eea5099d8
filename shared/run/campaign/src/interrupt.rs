//! Handling of Ctrl-C, SIGTERM, and SIGHUP without nohup: the first signal ends the tool after the current record, the
//! second one at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cli::Failure;
use signal_hook::flag;

/// Time for the current record after a signal, on a device without processes. Most are finished within milliseconds; a
/// search of an adaptive design, or a simulation, may take minutes.
const PATIENCE: Duration = Duration::from_secs(1);

/// The signals that ask the tool to end.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    flag: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
    /// Whether the tool ends shortly after a signal.
    soon: Arc<AtomicBool>,
    /// Whether it only waits for input, so that a signal ends it at once.
    idle: Arc<AtomicBool>,
    watched: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to listen for signals.
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

    /// For a device without its own processes, where nothing needs to be stopped: the tool ends shortly after a signal,
    /// even during a computation or while waiting for input. The output so far is a profile that can be continued.
    /// `soon`: whether the next device is of this kind.
    pub fn end_soon(&self, soon: bool) {
        self.soon.store(soon, Ordering::SeqCst);
        if soon {
            self.watch();
        }
    }

    /// Waits for input by calling `wait`, without a time limit. Nothing runs that would have to be stopped, so a signal
    /// ends the tool at once.
    ///
    /// # Errors
    /// [`Failure::Signal`] if a signal has already arrived.
    pub fn while_idle<T>(&self, wait: impl FnOnce() -> T) -> Result<T, Failure> {
        // Set before the check, so that a signal between the check and the wait finds the tool idle.
        self.idle.store(true, Ordering::SeqCst);
        self.watch();
        self.check()?;
        let out = wait();
        self.idle.store(false, Ordering::SeqCst);
        Ok(out)
    }

    fn watch(&self) {
        if self.watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut ending = match signal_hook::iterator::Signals::new(cli::ending_signals()) {
            Ok(ending) => ending,
            // The current record is finished first.
            Err(_) => return,
        };
        let soon = Arc::clone(&self.soon);
        let idle = Arc::clone(&self.idle);
        let wait = move || {
            for signal in ending.forever() {
                if !idle.load(Ordering::SeqCst) {
                    if !soon.load(Ordering::SeqCst) {
                        continue;
                    }
                    thread::sleep(PATIENCE);
                }
                std::process::exit(128 + signal);
            }
        };
        // If no thread can be created, the tool ends only after the current record.
        thread::Builder::new().spawn(wait).ok();
    }

    /// Fails if a signal has arrived.
    pub fn check(&self) -> Result<(), Failure> {
        if self.flag.load(Ordering::SeqCst) {
            return Err(self.failure());
        }
        Ok(())
    }

    /// The failure with which the signal ends the tool.
    pub fn failure(&self) -> Failure {
        let number = self.number.load(Ordering::SeqCst);
        Failure::Signal(u8::try_from(number).ok().filter(|n| *n > 0).unwrap_or(2))
    }
}
