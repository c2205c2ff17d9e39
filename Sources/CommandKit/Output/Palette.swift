/// The colours of pictures and pages, by their names in rules of CSS.
package enum Palette {
    /// The colours on light and on dark ground; only what failed has a loud one.
    private static let colors: [(name: String, light: String, dark: String)] = [
        ("page", "#fff", "#14181c"), ("ink", "#1c2228", "#e4e8ec"), ("dim", "#5b6670", "#9ba6b0"), ("line", "#dde2e7", "#2d353d"),
        ("on", "#a9b9c7", "#4a6072"), ("off", "#c4301d", "#ff7a63"), ("gap", "#7d8892", "#8a96a1"),
        ("success", "#0b62ba", "#6cb4ff"), ("warning", "#a35200", "#ffb35c"),
    ]

    /// The colours as custom properties of a page, for rules such as `fill:var(--ink)`.
    package static let properties = """
        :root{color-scheme:light dark;\(colors.map { "--\($0.name):\($0.light)" }.joined(separator: ";"))}
        @media (prefers-color-scheme:dark){
        :root{\(colors.map { "--\($0.name):\($0.dark)" }.joined(separator: ";"))}}
        """

    /// Returns such rules with the colours themselves, for light and for dark ground.
    ///
    /// Converters of SVG files such as librsvg know no custom properties.
    package static func plain(_ rules: String) -> String {
        let light = colors.reduce(rules) { $0.replacing("var(--\($1.name))", with: $1.light) }
        let dark = colors.reduce(rules) { $0.replacing("var(--\($1.name))", with: $1.dark) }
        return "\(light)\n@media (prefers-color-scheme:dark){\(dark)}"
    }
}
