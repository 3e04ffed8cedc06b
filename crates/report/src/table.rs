//! Tables as plain data.

/// A table of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title above the table.
    pub title: String,
    /// How to read it: sentences.
    pub how: String,
    /// Heads of the columns, the first that of the rows' names.
    pub columns: Vec<String>,
    /// All rows, in order.
    pub rows: Vec<TableRow>,
}

/// The origin of a row's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKind {
    /// Measured in this run.
    #[default]
    Measured,
    /// Published by others, not measured here.
    Published,
    /// A heading of the rows below, without cells.
    Head,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// The name in the first column.
    pub name: String,
    /// One text for each further column.
    pub cells: Vec<String>,
    /// The origin of the figures.
    pub kind: RowKind,
}

impl Table {
    /// Makes a table without rows.
    pub fn new(title: &str, how: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            how: how.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Begins a table with a column for each variant; `first` is the head of the rows' names.
    pub fn by_variant(title: &str, how: &str, first: &str, variants: &[&str]) -> Self {
        let columns: Vec<&str> = std::iter::once(first).chain(variants.iter().copied()).collect();
        Self::new(title, how, &columns)
    }

    /// Returns the table; none without rows.
    pub fn unless_empty(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Adds a row of this run.
    pub fn measured(&mut self, name: impl Into<String>, cells: Vec<String>) {
        self.rows.push(TableRow { name: name.into(), cells, kind: RowKind::Measured });
    }

    /// Adds a head for the rows that follow.
    pub fn group(&mut self, name: &str) {
        self.rows.push(TableRow { name: name.to_owned(), kind: RowKind::Head, ..TableRow::default() });
    }

    /// Adds a row of somebody else's figures.
    pub fn published(&mut self, name: impl Into<String>, cells: &[&str]) {
        let cells = cells.iter().map(|cell| (*cell).to_owned()).collect();
        self.rows.push(TableRow { name: name.into(), cells, kind: RowKind::Published });
    }
}
