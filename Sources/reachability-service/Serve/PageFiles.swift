/// A file of the page, built into the program.
struct PageFile: Sendable {
    let path: String
    let type: String
    let bytes: [UInt8]

    /// All files; the page loads no other ones.
    static let all = [
        PageFile(path: "/", type: "text/html; charset=utf-8", bytes: PackageResources.index_html),
        PageFile(path: "/page.css", type: "text/css; charset=utf-8", bytes: PackageResources.page_css),
        PageFile(path: "/page.js", type: "text/javascript; charset=utf-8", bytes: PackageResources.page_js),
        PageFile(path: "/text.js", type: "text/javascript; charset=utf-8", bytes: PackageResources.text_js),
        PageFile(path: "/timeline.js", type: "text/javascript; charset=utf-8", bytes: PackageResources.timeline_js),
        PageFile(path: "/icon.svg", type: "image/svg+xml", bytes: PackageResources.icon_svg),
    ]

    /// The headers of every answer.
    ///
    /// The page runs only its own scripts and reaches only this service (Content Security Policy Level 3); no other page may
    /// frame it or read the answers.
    static let headers = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
                + "form-action 'none'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"), ("Cache-Control", "no-store"),
    ]
}
