import CommandKit

/// The elements of an SVG picture that shows a light or a dark page, as its reader's system does.
///
/// Colours repeat what shapes, strokes and patterns show. Nothing is loaded from elsewhere.
struct PictureCanvas {
    /// The width in units; a phone shows about as many points.
    static let width = 420.0

    /// The horizontal anchor of a text.
    enum Anchor: String {
        case start
        case middle
        case end
    }

    /// The height so far.
    var height = 0.0
    private var elements: [String] = []

    // MARK: - Elements

    /// Adds a rectangle.
    mutating func rectangle(_ style: String, x: Double, y: Double, width: Double, height: Double) {
        elements.append(
            "<rect class=\"\(style)\" x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" width=\"\(Self.number(width))\" "
                + "height=\"\(Self.number(height))\"/>")
    }

    /// Adds a path, unless it is empty.
    mutating func path(_ style: String, _ path: String) {
        if !path.isEmpty { elements.append("<path class=\"\(style)\" d=\"\(path)\"/>") }
    }

    /// Adds a line of text.
    mutating func text(_ style: String, _ text: String, x: Double, y: Double, _ anchor: Anchor = .start) {
        let anchor = anchor == .start ? "" : " text-anchor=\"\(anchor.rawValue)\""
        elements.append(
            "<text class=\"\(style)\" x=\"\(Self.number(x))\" y=\"\(Self.number(y))\"\(anchor)>\(ForeignText(text).html)</text>")
    }

    /// Returns the picture.
    ///
    /// - Parameters:
    ///   - title: The title, for screen readers.
    ///   - description: The content in words, for screen readers.
    func svg(title: String, description: String) -> String {
        let (width, height) = (Self.number(Self.width), Self.number(self.height))
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) \(height)" width="\(Self.number(Self.width * 1.5))" \
            height="\(Self.number(self.height * 1.5))" role="img" aria-labelledby="title description">
            <title id="title">\(ForeignText(title).html)</title>
            <desc id="description">\(ForeignText(description).html)</desc>
            <style>
            \(Self.style)
            </style>
            <defs>
            <pattern id="slashes" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
            <path class="slash" d="M0 0V5"/></pattern>
            <pattern id="stripes" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
            <path class="stripe" d="M1 0V4"/></pattern>
            <pattern id="grille" width="4" height="4" patternUnits="userSpaceOnUse">\
            <path class="grille" d="M0 0L4 4M4 0L0 4"/></pattern>
            </defs>
            <rect class="page" width="100%" height="100%"/>
            \(elements.joined(separator: "\n"))
            </svg>
            """
    }

    // MARK: - Marks

    /// Returns the path of a circle.
    static func circle(_ x: Double, _ y: Double, _ radius: Double) -> String {
        let (r, d) = (number(radius), number(radius * 2))
        return "M\(number(x - radius)) \(number(y))a\(r) \(r) 0 1 0 \(d) 0a\(r) \(r) 0 1 0 -\(d) 0z"
    }

    /// Returns the path of a diamond.
    static func diamond(_ x: Double, _ y: Double, _ radius: Double) -> String {
        let r = number(radius * 1.2)
        return "M\(number(x - radius * 1.2)) \(number(y))l\(r) -\(r)l\(r) \(r)l-\(r) \(r)z"
    }

    /// Returns the path of a cross.
    static func cross(_ x: Double, _ y: Double, _ radius: Double) -> String {
        let (left, right) = (number(x - radius), number(x + radius))
        let (top, bottom) = (number(y - radius), number(y + radius))
        return "M\(left) \(top)L\(right) \(bottom)M\(right) \(top)L\(left) \(bottom)"
    }

    /// Returns the path of a horizontal line.
    static func line(from start: Double, to end: Double, _ y: Double) -> String {
        "M\(number(start)) \(number(y))H\(number(end))"
    }

    /// Returns the path of a vertical line.
    static func line(_ x: Double, from top: Double, to bottom: Double) -> String {
        "M\(number(x)) \(number(top))V\(number(bottom))"
    }

    /// Returns the path of a rectangle.
    static func box(x: Double, y: Double, width: Double, height: Double) -> String {
        "M\(number(x)) \(number(y))h\(number(width))v\(number(height))h-\(number(width))z"
    }

    /// Returns a number with at most one decimal, without a sign for zero.
    static func number(_ value: Double) -> String {
        let tenths = Int((min(max(value, -1e6), 1e6) * 10).rounded())
        let sign = tenths < 0 ? "-" : ""
        let (whole, fraction) = tenths.magnitude.quotientAndRemainder(dividingBy: 10)
        return fraction == 0 ? "\(sign)\(whole)" : "\(sign)\(whole).\(fraction)"
    }

    /// Returns the width that a text takes, or a little more.
    static func width(of text: String, size: Double = 11) -> Double { Double(text.count) * size * 0.56 }

    // MARK: - Styles

    private static let style = """
        text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
        .title{font-size:15px;font-weight:600}.head{font-size:12.5px;font-weight:600}.small{font-size:10px}
        .grid,.axis{fill:none;stroke-width:1}.ok,.work,.online,.band{stroke:none}
        .error{stroke-width:1.5;stroke-linejoin:round}.none{fill:none;stroke-width:1.7;stroke-linecap:round}
        .run{stroke-width:1.5}.gave{fill:none;stroke-width:3}
        .network,.turn,.backoff,.ordered{fill:none}.network{stroke-width:1.4;stroke-dasharray:5 3}
        .turn{stroke-width:1.4;stroke-dasharray:1 3}.backoff{stroke-width:2.5}.ordered{stroke-width:4.5}
        .offline{fill:url(#slashes);stroke-width:1}.trouble{fill:url(#stripes);stroke-width:1}
        .bar-ok{stroke:none}.bar-error{fill:url(#stripes);stroke-width:.8}.bar-none{fill:url(#grille);stroke-width:.8}
        .bar-run{fill:none;stroke-width:.8}.slash,.stripe,.grille{fill:none;stroke-width:1.2}.grille{stroke-width:.8}
        .tag{stroke:none}
        \(Palette.plain(colors))
        """

    private static let colors = """
        .page,.run,.error,.tag{fill:var(--page)}text{fill:var(--ink)}.dim{fill:var(--dim)}.grid{stroke:var(--line)}
        .axis{stroke:var(--dim)}.online{fill:var(--on)}.backoff{stroke:var(--on)}.work{fill:var(--dim)}
        .network,.turn{stroke:var(--dim)}.ok,.bar-ok{fill:var(--success)}
        .error,.trouble,.stripe,.bar-error{stroke:var(--warning)}.ordered{stroke:var(--warning);stroke-opacity:.55}
        .none,.offline,.slash,.grille,.bar-none{stroke:var(--off)}.band{fill:var(--off);fill-opacity:.1}
        .run,.gave,.bar-run{stroke:var(--ink)}
        """
}
