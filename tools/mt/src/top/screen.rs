//! Contents of the screen, and how they are drawn.

use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};
use ratatui::{Terminal, buffer::Buffer};

/// A job or task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Number or name.
    pub id: String,
    /// Its state, or why it waits.
    pub state: String,
    /// Whether it computes now.
    pub running: bool,
    /// Whether it has ended, successfully or not.
    pub ended: bool,
    /// Seconds since its start, or its total time.
    pub time_s: Option<f64>,
    /// Share of the device, percent.
    pub share_percent: Option<f64>,
    /// Fraction of its work that is done, from 0 to 1.
    pub part: Option<f64>,
    /// Work done as text, shown if the total is unknown.
    pub done: String,
    /// Estimated remaining seconds.
    pub left_s: Option<f64>,
    /// Throughput as a percentage of the prediction.
    pub of_predicted_percent: Option<f64>,
    /// Command, or other information.
    pub what: String,
}

/// Everything that the screen shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Screen {
    /// Title line: the queue or run, and the number of jobs in each state.
    pub title: String,
    /// Lines below the title: the device, what was learnt, and problems.
    pub notes: Vec<String>,
    /// Rows of the jobs: running, waiting, and ended ones.
    pub rows: Vec<Row>,
}

/// Scroll position and filter of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scroll {
    /// Number of rows scrolled off above the first visible one.
    pub above: usize,
    /// Whether ended jobs are listed.
    pub ended: bool,
}

const KEYS: &str = "q quit  ↑ ↓ PgUp PgDn scroll  e show or hide ended jobs";
/// Width of the progress bar in characters.
const BAR: usize = 8;
/// Maximum number of notes shown above the jobs.
const MOST_NOTES: usize = 5;

impl Screen {
    /// The rows that `place` does not hide.
    fn shown(&self, place: Scroll) -> Vec<&Row> {
        let listed = |row: &&Row| place.ended || !row.ended;
        self.rows.iter().filter(listed).collect()
    }

    /// The nearest position that fills `height` lines with rows, if there are enough rows.
    #[must_use]
    pub fn settle(&self, place: Scroll, height: u16) -> Scroll {
        let lines = usize::from(height).saturating_sub(self.head() + 2);
        let most = self.shown(place).len().saturating_sub(lines.max(1));
        Scroll {
            above: place.above.min(most),
            ..place
        }
    }

    /// Number of lines above the table.
    fn head(&self) -> usize {
        1 + self.notes.len().min(MOST_NOTES)
    }
}

/// Draws a screen: title, notes, table, keys.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen, place: Scroll) {
    let head = u16::try_from(screen.head()).unwrap_or(u16::MAX);
    let parts = Layout::vertical([
        Constraint::Length(head),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [top, middle, bottom] = parts.areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled(screen.title.as_str(), bold)];
    let notes = screen.notes.iter().take(MOST_NOTES);
    lines.extend(notes.map(|note| Line::raw(note.as_str())));
    frame.render_widget(Paragraph::new(Text::from(lines)), top);
    let place = screen.settle(place, frame.area().height);
    let shown = screen.shown(place);
    frame.render_widget(table(&shown[place.above..]), middle);
    let below = shown
        .len()
        .saturating_sub(place.above + usize::from(middle.height.saturating_sub(1)));
    let hidden = match (place.above, below) {
        (0, 0) => String::new(),
        (above, below) => format!("  {above} above, {below} below"),
    };
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let keys = Line::styled(format!("{KEYS}{hidden}"), reversed);
    frame.render_widget(Paragraph::new(keys), bottom);
}

fn table<'a>(rows: &[&'a Row]) -> Table<'a> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let head = [
        "ID", "STATE", "TIME", "SHARE", "PROGRESS", "LEFT", "SPEED", "COMMAND",
    ];
    let body = rows.iter().map(|row| {
        let percent = |p: Option<f64>| p.map_or_else(String::new, |p| format!("{p:.0} %"));
        let clock = |s: Option<f64>| s.map_or_else(String::new, queue::show::clock);
        let cells = [
            Cell::from(row.id.as_str()),
            Cell::from(row.state.as_str()),
            Cell::from(Text::from(clock(row.time_s)).right_aligned()),
            Cell::from(Text::from(percent(row.share_percent)).right_aligned()),
            Cell::from(progress(row)),
            Cell::from(Text::from(clock(row.left_s)).right_aligned()),
            Cell::from(Text::from(percent(row.of_predicted_percent)).right_aligned()),
            Cell::from(row.what.as_str()),
        ];
        let style = match (row.running, row.ended) {
            (true, _) => bold,
            (_, true) => dim,
            _ => Style::new(),
        };
        TableRow::new(cells).style(style)
    });
    let longest = rows.iter().map(|row| row.id.chars().count()).max();
    let id = u16::try_from(longest.unwrap_or(0).clamp(5, 16)).unwrap_or(16);
    let widths = [id, 11, 7, 5, BAR as u16 + 5, 7, 5]
        .map(Constraint::Length)
        .into_iter()
        .chain([Constraint::Min(8)]);
    Table::new(body, widths)
        .header(TableRow::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .column_spacing(1)
}

/// Progress bar such as `####---- 50%`, in characters that every terminal has.
fn progress(row: &Row) -> String {
    let Some(part) = row.part else {
        return row.done.clone();
    };
    let part = part.clamp(0.0, 1.0);
    let full = (part * BAR as f64).round() as usize;
    format!(
        "{}{} {:>3.0}%",
        "#".repeat(full),
        "-".repeat(BAR - full),
        100.0 * part
    )
}

/// The screen as plain text without control characters, for output that is not a terminal.
#[must_use]
pub fn text(screen: &Screen, width: u16) -> String {
    let height = screen.head() + 2 + screen.rows.len();
    let backend = TestBackend::new(width, u16::try_from(height).unwrap_or(u16::MAX));
    let place = Scroll {
        above: 0,
        ended: true,
    };
    let Ok(mut terminal) = Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| draw(frame, screen, place));
    let mut lines = lines(terminal.backend().buffer());
    // Drop the line of keys, which need a terminal.
    lines.pop();
    lines.join("\n") + "\n"
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y: u16| {
        let cells = (0..area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: usize) -> Row {
        Row {
            id: n.to_string(),
            state: if n < 3 { "running" } else { "waiting" }.to_owned(),
            running: n < 3,
            ended: n > 60,
            time_s: (n < 3).then_some(75.0),
            share_percent: (n < 3).then_some(40.0),
            part: (n == 1).then_some(0.5),
            done: "12 steps".to_owned(),
            left_s: (n == 1).then_some(3700.0),
            of_predicted_percent: (n == 1).then_some(97.4),
            what: "python3 train.py --learning-rate 0.1".to_owned(),
        }
    }

    fn many() -> Screen {
        Screen {
            title: "queue: 2 running, 62 waiting".to_owned(),
            notes: vec!["processors busy 99 %".to_owned()],
            rows: (1..=64).map(job).collect(),
        }
    }

    fn seen(screen: &Screen, place: Scroll, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen, place)).unwrap();
        lines(terminal.backend().buffer())
    }

    #[test]
    fn a_job_stands_on_a_line_of_80_columns_with_all_that_is_known() {
        let lines = seen(&many(), Scroll::default(), 80, 24);
        assert_eq!(lines[0], "queue: 2 running, 62 waiting");
        assert_eq!(
            lines[3..5],
            [
                "1     running        1:15  40 % ####----  50% 1:01:40  97 % python3 train.py --l",
                "2     running        1:15  40 % 12 steps                    python3 train.py --l",
            ]
        );
        assert!(
            lines[23].starts_with("q quit") && lines[23].contains("0 above, 40 below"),
            "{lines:?}"
        );
    }

    #[test]
    fn what_is_beyond_the_screen_is_scrolled_to_and_no_further_than_the_last() {
        let screen = many();
        let place = Scroll {
            above: usize::MAX,
            ended: true,
        };
        let place = screen.settle(place, 24);
        let lines = seen(&screen, place, 80, 24);
        assert!(lines[22].starts_with("64 "), "{lines:?}");
        assert!(lines[23].contains("44 above, 0 below"), "{lines:?}");
        // Four jobs have ended, and are hidden at first.
        assert_eq!(
            screen
                .settle(
                    Scroll {
                        above: 99,
                        ended: false
                    },
                    24
                )
                .above,
            40
        );
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_stop() {
        for (width, height) in [(1, 1), (5, 3), (20, 2), (200, 1)] {
            seen(&many(), Scroll::default(), width, height);
        }
        assert_eq!(text(&many(), 80).lines().count(), 67);
    }
}
