import ArgumentParser

/// The form of the output.
enum OutputFormat: String, CaseIterable, ExpressibleByArgument {
    /// Lines for people.
    case text
    /// One JSON object a line.
    case json
}
