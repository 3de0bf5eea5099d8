/// Why reports cannot be shown in the requested form.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A trace was requested for documents without time.
    #[error("nothing here happens over time; give a timeline (mt-overlap) or a run (mt-launch)")]
    NothingOverTime,
    /// A picture was requested for documents without one.
    #[error("there is nothing to draw; give a profile, plan, timeline or run, or another --format")]
    NothingToDraw,
    /// A table could not be written as CSV.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] csv::Error),
    /// A trace could not be written as JSON.
    #[error("cannot write the trace: {0}")]
    Trace(#[from] serde_json::Error),
}
