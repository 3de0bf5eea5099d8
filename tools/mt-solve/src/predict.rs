use std::io::Read as _;
use std::path::Path;

use cli::{Console, Exit, Failure, Input, Output};
use design::{RowForm, ask, rows_text};
use doc::Model;

use crate::args::Args;

/// Writes the predictions of every model for the configurations of a table.
pub fn predict(path: &Path, args: &Args, console: &Console) -> Result<Exit, Failure> {
    args.stream.leaves("--predict", path)?;
    let (mut reader, source) = cli::open_reader(path, "a table of configurations", console)?;
    // Read the whole table, because every model of the stream predicts all of it.
    let mut table = Vec::new();
    let most = doc::MAX_DOCUMENT_BYTES as u64 + 1;
    let read = reader.by_ref().take(most).read_to_end(&mut table);
    read.map_err(|error| Failure::file(path, &error))?;
    let input = Input::open(&args.stream.files, "models", console)?;
    let mut output = Output::open(args.stream.output.as_deref(), false)?;
    let form = if args.json {
        RowForm::Json
    } else {
        RowForm::Csv
    };
    for (at, model) in input.documents::<Model>().enumerate() {
        let failed = |error: design::DesignError| Failure::Input(error.to_string());
        let (rows, notes) = ask(&model?, table.as_slice(), &source).map_err(failed)?;
        for note in notes.iter().filter(|_| at == 0) {
            console.note(note);
        }
        output.text(&rows_text(&rows, form, at == 0).map_err(failed)?)?;
    }
    output.finish()?;
    Ok(Exit::Done)
}
