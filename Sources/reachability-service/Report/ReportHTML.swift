import CommandKit
import Reachability

extension ReportContent {
    /// Returns the report as one HTML page without scripts and resources.
    var html: String {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width,initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
        <title>Reachability, \(words.time(period.from)) to \(words.time(period.until))</title>
        <style>
        \(Self.style)
        </style>
        </head>
        <body>
        <header>
        <h1>Reachability</h1>
        <p>\(time(period.from)) to \(time(period.until)) (\(ReportWords.length(period.until - period.from))), \
        times in \(zone)</p>
        </header>
        <main>
        \(overview.map { html($0, id: "scope", classes: "overview", isTitled: false, areLinks: true) } ?? "")
        \(sections.enumerated().map { html($1, number: $0 + 1) }.joined(separator: "\n"))
        </main>
        <footer><p>\(Self.rules)</p></footer>
        </body>
        </html>

        """
    }

    private func html(_ section: Section, number: Int) -> String {
        let picture = TimelinePicture(section, words: words, number: number)
        let facts = section.facts.map { fact in
            "<div><dt>\(fact.name)</dt><dd>\(fact.value)\(fact.detail.map { "<small>\($0)</small>" } ?? "")</dd></div>"
        }
        let flaps = html(section.flaps, id: "flaps\(number)", classes: "outages", isTitled: false)
        let details = "<details><summary>Flaps (\(section.summary.sums.flaps))</summary>\n\(flaps)\n</details>"
        let sums = section.sums.enumerated().map { index, table in
            "<div>\(html(table, id: "sums\(number)-\(index)"))</div>"
        }
        return """
            <section aria-labelledby="scope\(number)">
            <h2 id="scope\(number)">\(ForeignText(section.summary.scope).html)</h2>
            <p class="share"><strong>\(section.availability)</strong> online</p>
            <figure>
            \(picture.svg("class=\"timeline\" width=\"100%\" height=\"\(TimelinePicture.height)\""))
            <figcaption><span class="key key-on">online</span> <span class="key key-off">offline</span> \
            <span class="key key-gap">unknown</span></figcaption>
            </figure>
            <dl>
            \(facts.joined(separator: "\n"))
            </dl>
            \(html(section.outages, id: "outages\(number)", classes: "outages"))
            \(section.flaps.rows.isEmpty ? "" : details)
            <div class="columns">
            \(sums.joined(separator: "\n"))
            </div>
            \(section.remarks.map { "<p class=\"remark\">\($0)</p>" }.joined(separator: "\n"))
            </section>
            """
    }

    /// Returns a table.
    ///
    /// Its roles are written out: style sheets that make grids of rows would take them away.
    ///
    /// - Parameter areLinks: True if the rows lead to the elements with this id and their number.
    private func html(
        _ table: Table, id: String, classes: String = "sums", isTitled: Bool = true, areLinks: Bool = false
    ) -> String {
        let title = isTitled ? "<h3 id=\"\(id)\">\(table.title)</h3>\n" : ""
        guard !table.rows.isEmpty else { return title + "<p>None.</p>" }
        func element(_ name: String, _ attributes: String, _ column: Int, _ content: String) -> String {
            "<\(name) \(attributes)\(table.numeric.contains(column) ? " class=\"number\"" : "")>\(content)</\(name)>"
        }
        let head = table.columns.enumerated().map { element("th", "scope=\"col\" role=\"columnheader\"", $0, $1) }
        let rows = table.rows.enumerated().map { number, row in
            let cells = row.enumerated().map { column, cell in
                guard column == 0 else { return element("td", "role=\"cell\"", column, html(cell)) }
                let text = areLinks ? "<a href=\"#\(id)\(number + 1)\">\(html(cell))</a>" : html(cell)
                return element("th", "scope=\"row\" role=\"rowheader\"", column, text)
            }
            return "<tr role=\"row\">\(cells.joined())</tr>"
        }
        let name = isTitled ? "aria-labelledby=\"\(id)\"" : "aria-label=\"\(table.title)\""
        return """
            \(title)<table role="table" class="\(classes)" \(name)>
            <thead role="rowgroup"><tr role="row">\(head.joined())</tr></thead>
            <tbody role="rowgroup">
            \(rows.joined(separator: "\n"))
            </tbody>
            </table>
            """
    }

    private func html(_ cell: Cell) -> String {
        if let time = cell.time { return self.time(time) }
        let text = ForeignText(cell.text).html
        guard let detail = cell.detail, !detail.isEmpty else { return text }
        return "\(text) <small>\(ForeignText(detail).html)</small>"
    }

    private func time(_ time: Duration) -> String {
        "<time datetime=\"\(CalendarTime(time).rfc3339)\">\(words.time(time))</time>"
    }

    private static let style = """
        \(Palette.properties)
        *{box-sizing:border-box}
        body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 3rem;background:var(--page);color:var(--ink);
        font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-variant-numeric:tabular-nums}
        h1{font-size:1.25rem;margin:0}h2{font-size:1.125rem;margin:0;overflow-wrap:anywhere}
        h3{font-size:1rem;margin:1.75rem 0 .25rem}
        p{margin:.25rem 0}.remark{margin-top:.75rem}header p,footer,.remark,small,dt,figcaption,thead th,summary{color:var(--dim)}
        section{border-top:1px solid var(--line);margin-top:1.5rem;padding-top:1.5rem}
        .share{font-size:1.125rem}.share strong{font-size:2.5rem;line-height:1.1;font-weight:650}
        figure{margin:1.25rem 0 1rem}.timeline{display:block;overflow:visible}
        .timeline text{fill:var(--dim);font-size:12px}figcaption{font-size:.875rem;margin-top:.5rem}
        \(TimelinePicture.rules)
        .key{margin-right:1rem;white-space:nowrap}
        .key::before{content:"";display:inline-block;margin-right:.4rem;vertical-align:middle;width:1rem;height:.5rem;
        background:var(--on);forced-color-adjust:none}
        .key-off::before{width:.3rem;height:1.1rem;background:var(--off)}
        .key-gap::before{background:repeating-linear-gradient(135deg,var(--gap) 0 1.5px,transparent 1.5px 5px);
        border:1px solid var(--gap)}
        dl{display:flex;flex-wrap:wrap;gap:.75rem 2.5rem;margin:1rem 0}
        dt{font-size:.875rem}dd{margin:0;font-weight:600}dd small{font-weight:400}
        table{border-collapse:collapse;width:100%}
        th,td{padding:.4rem 1rem .4rem 0;text-align:left;vertical-align:top;font-weight:400;border-bottom:1px solid var(--line);
        overflow-wrap:anywhere}
        th:last-child,td:last-child{padding-right:0}
        thead th{font-size:.875rem;overflow-wrap:normal}
        .number{text-align:right;white-space:nowrap}
        .outages .number{padding-right:2rem}a{color:inherit}
        .overview{margin-top:1.5rem}.overview+section{border:0}
        time{white-space:nowrap}small{display:block;font-size:.875rem}
        summary{cursor:pointer;margin-top:1.25rem}:focus-visible{outline:2px solid var(--ink);outline-offset:2px}
        .columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr));column-gap:3rem}
        footer{border-top:1px solid var(--line);margin-top:2rem;padding-top:1rem;font-size:.875rem}
        @media (max-width:40rem){.extra{display:none}th,td{padding-right:.75rem}
        .outages thead,.overview thead th:first-child{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
        .outages tbody tr,.overview tr{display:grid;grid-template-columns:1fr auto;column-gap:1rem;padding:.5rem 0;
        border-bottom:1px solid var(--line)}
        .overview tr{grid-template-columns:repeat(4,1fr)}.overview th[scope=row]{grid-column:1/-1}
        :is(.outages tbody,.overview) :is(th,td){border:0;padding:0}
        .outages tbody td:nth-child(2){font-weight:600;padding:0}
        .outages tbody td:nth-child(3){order:2;text-align:right;color:var(--dim)}}
        """
}
