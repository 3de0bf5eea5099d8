use super::{at_right, heading, shown};
use crate::page::{Report, Table};
use crate::picture::{document, escape};

/// Style of the page. Pictures are 880 pixels wide with letters of 11 and 12 pixels, which are unreadable below a
/// width of 720. A narrow window therefore scrolls a picture sideways, like a table.
const STYLE: &str = "\
body{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;color:#222;background:#fff;\
max-width:960px;margin:2em auto;padding:0 1em;line-height:1.4}\
h1{font-size:1.5em;border-bottom:2px solid #222}h2{font-size:1.1em;margin-top:1.6em}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.2em}dt{color:#555}dd{margin:0}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}\
th,td{padding:.25em .7em;text-align:left;border-bottom:1px solid #ddd}\
th{border-bottom:2px solid #222;vertical-align:bottom}.n{text-align:right;font-variant-numeric:tabular-nums}\
th span{display:block;font-weight:normal;color:#555}\
svg{max-width:100%;min-width:720px;height:auto}dd,.headline{overflow-wrap:anywhere}\
.headline{font-size:1.15em;font-weight:bold}\
@media (max-width:600px){body{margin:.5em auto;padding:0 .6em}h1{font-size:1.3em}\
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5em}}\
@media (prefers-color-scheme:dark){body{color:#ddd;background:#161616}\
h1,th{border-color:#ddd}dt,th span{color:#aaa}th,td{border-bottom-color:#444}\
svg{filter:invert(.91) hue-rotate(180deg)}}";

/// Writes one page without external files: facts, pictures and tables of every report.
pub fn html(reports: &[Report]) -> String {
    let title = reports.first().map_or("Report", |r| &r.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escape(title)
    );
    for report in reports {
        one(report, &mut out);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn one(report: &Report, out: &mut String) {
    if !report.title.is_empty() {
        out.push_str(&format!("<h1>{}</h1>\n", escape(&report.title)));
    }
    if !report.headline.is_empty() {
        let headline = escape(&report.headline);
        out.push_str(&format!("<p class=\"headline\">{headline}</p>\n"));
    }
    if !report.facts.is_empty() {
        out.push_str("<dl>\n");
        for (label, value) in &report.facts {
            let (label, value) = (escape(label), escape(value));
            out.push_str(&format!("<dt>{label}</dt><dd>{value}</dd>\n"));
        }
        out.push_str("</dl>\n");
    }
    for picture in &report.pictures {
        let svg = document(std::slice::from_ref(picture));
        let label = escape(&picture.title);
        let named = format!("<svg role=\"img\" aria-label=\"{label}\" ");
        let svg = svg.replacen("<svg ", &named, 1);
        out.push_str(&format!("<div class=\"wide\">{svg}</div>\n"));
    }
    for t in &report.tables {
        table(t, report.simulated, out);
    }
    for note in &report.notes {
        out.push_str(&format!("<p>{}</p>\n", escape(note)));
    }
    if !report.legend.is_empty() {
        out.push_str("<h2>Words and symbols</h2>\n<dl>\n");
        for (term, meaning) in &report.legend {
            let (term, meaning) = (escape(term), escape(meaning));
            out.push_str(&format!("<dt>{term}</dt><dd>{meaning}</dd>\n"));
        }
        out.push_str("</dl>\n");
    }
}

fn table(table: &Table, simulated: bool, out: &mut String) {
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|&c| !table.columns[c].drawn)
        .collect();
    let class = |c: usize| {
        if at_right(table, c) {
            " class=\"n\""
        } else {
            ""
        }
    };
    out.push_str(&format!(
        "<h2>{}</h2>\n<div class=\"wide\"><table>\n<tr>",
        escape(&table.title)
    ));
    for &c in &columns {
        let parts = heading(&table.columns[c], simulated);
        let (name, rest) = parts.split_first().map_or(("", &[][..]), |(n, r)| (*n, r));
        let units: String = rest
            .iter()
            .map(|u| format!("<span>{}</span>", escape(u)))
            .collect();
        out.push_str(&format!("<th{}>{}{units}</th>", class(c), escape(name)));
    }
    out.push_str("</tr>\n");
    let cells: Vec<Vec<String>> = columns.iter().map(|&c| shown(table, c)).collect();
    for row in 0..table.rows.len() {
        out.push_str("<tr>");
        for (column, &c) in cells.iter().zip(&columns) {
            out.push_str(&format!("<td{}>{}</td>", class(c), escape(&column[row])));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}
