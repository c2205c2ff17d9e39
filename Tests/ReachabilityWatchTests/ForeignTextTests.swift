import FoundationEssentials
import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit

/// Hostile strings, and the rules by which each destination reads what it is given.
struct ForeignTextTests {
    private static let hostile = [
        "", "eth0", "grün 网卡 👩‍👩‍👧", "\u{1b}[31mred\u{1b}]0;title\u{7}", #"a"b'c`d"#, "$(id)", "`id`; rm -rf $HOME", "%s%n", "-rf",
        "<b>bold</b>", "&amp;&#x202e;", "]]><script>alert(1)</script>", "--><svg onload='x'>", "{{template}}",
        "\u{202e}gpj.exe", "\u{2066}a\u{2069}\u{200f}", "zero\u{200b}width\u{feff}", "two\nlines\r\nand\ttab",
        "line\u{85}\u{2028}break",
        "csi\u{9b}2J", "del\u{7f}", "nul\0byte", "tag\u{e0041}", "\u{fffe}\u{10ffff}\u{e000}", "nbsp\u{a0}", #"back\slash\"#,
        #"\x1b\u{202e}"#, "<3>urgent", "<191>", "< 3>", "quote\\\"", "e\u{301}\u{301}\u{301}", #"\xff"#,
    ]
    private static let bytes: [[UInt8]] = [
        [0xff], [0x65, 0x1b, 0xff, 0x22, 0x5c], [0xc3], [0xed, 0xa0, 0x80], [0x3c, 0x33, 0x3e, 0xfe],
        [0x5c, 0x78, 0x66, 0x66, 0x80],
    ]

    /// Returns a text of each kind: as it is, as a name, and from bytes.
    private static var texts: [ForeignText] {
        hostile.map { ForeignText($0) } + hostile.map { ForeignText(name: $0) } + bytes.map { ForeignText($0) }
    }

    @Test func everyEncodingButTheEnvironmentIsHarmless() {
        for text in Self.texts {
            for encoded in [text.terminal, text.json, text.prometheusLabel, text.html, text.journal] {
                #expect(isHarmless(encoded), "\(encoded.debugDescription)")
            }
        }
    }

    @Test func jsonDecodesToTheSameText() throws {
        for text in Self.texts {
            #expect(try JSONDecoder().decode([String].self, from: Data("[\(text.json)]".utf8)) == [text.text])
        }
    }

    @Test func labelsAreReadByTheRulesOfPrometheus() throws {
        for text in Self.texts { #expect(try Reader.label(text.prometheusLabel) == text.terminal) }
    }

    @Test func htmlIsReadByTheRulesOfXML() throws {
        for text in Self.texts { #expect(try Reader.html(text.html) == text.terminal) }
    }

    @Test func theJournalGetsOneLineWithoutPriority() throws {
        for text in Self.texts {
            #expect(text.journal.firstMatch(of: /<[0-9]{1,3}>/) == nil)
            #expect(text.journal.replacing(#"\x3c"#, with: "<") == text.terminal.replacing(#"\x3c"#, with: "<"))
        }
    }

    @Test func theEnvironmentGetsTheBytes() {
        for text in Self.hostile where !text.contains("\0") { #expect(ForeignText(text).environmentValue == Array(text.utf8)) }
        for bytes in Self.bytes {
            #expect(ForeignText(bytes).environmentValue == bytes)
            #expect(ForeignText(name: InterfaceName.text(bytes)).environmentValue == bytes)
        }
        #expect(ForeignText("nul\0byte").environmentValue == Array(#"nul\x00byte"#.utf8))
        #expect(ForeignText("a\0").cString == [0x61, 0x5c, 0x78, 0x30, 0x30, 0])
    }

    @Test(arguments: [
        ("\u{1b}", #"\x1b"#, #""\u001b""#, #"\\x1b"#, #"\x1b"#, #"\x1b"#),
        (#"a"b"#, #"a"b"#, #""a\"b""#, #"a\"b"#, "a&quot;b", #"a"b"#),
        ("<b>'&", "<b>'&", #""<b>'&""#, "<b>'&", "&lt;b&gt;&#39;&amp;", "<b>'&"),
        ("\u{202e}", #"\u{202e}"#, #""\u202e""#, #"\\u{202e}"#, #"\u{202e}"#, #"\u{202e}"#),
        ("<6>x\n", #"<6>x\x0a"#, #""<6>x\u000a""#, #"<6>x\\x0a"#, #"&lt;6&gt;x\x0a"#, #"\x3c6>x\x0a"#),
    ])
    func encodingsAreThese(
        _ text: String, _ terminal: String, _ json: String, _ label: String, _ html: String, _ journal: String
    ) {
        let foreign = ForeignText(text)
        #expect(foreign.terminal == terminal && foreign.json == json)
        #expect(foreign.prometheusLabel == label && foreign.html == html && foreign.journal == journal)
    }

    @Test func bytesThatAreTextStayAsTheyAre() {
        #expect(ForeignText(Array(#"sed s/\x27//"#.utf8)).text == #"sed s/\x27//"#)
        #expect(ForeignText([0x5c, 0xff]).text == #"\x5c\xff"#)
        #expect(ForeignText([0x61]) == ForeignText("a") && ForeignText([0xff]) == ForeignText(name: #"\xff"#))
        #expect(ForeignText(#"\xff"#) != ForeignText([0xff]))
        #expect(ForeignText(name: #"\xff"#).utf8 == nil && ForeignText(name: #"a\x5cb"#).utf8 == #"a\b"#)
    }

    @Test(arguments: [11, 2026] as [UInt64])
    func randomNamesComeBack(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let letters = Array(#"ab\x5cf<3>"'&\#u{1b}"#.utf8) + [0xff, 0xc3, 0xa4, 0x80, 0x0a]
        for _ in 0..<20_000 {
            let bytes = (0..<random.next() % 16).map { _ in letters[Int(random.next() % UInt64(letters.count))] }
            let name = InterfaceName.text(bytes)
            #expect(ForeignText(name: name).bytes == bytes, "seed \(seed), \(bytes)")
            #expect(ForeignText(typedName: ForeignText(name: name).terminal).bytes == bytes, "seed \(seed), \(bytes)")
        }
    }

    @Test(arguments: [12, 815] as [UInt64])
    func differentNamesHaveDifferentLabels(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var names: [String: [UInt8]] = [:]
        let letters: [UInt8] = [0x5c, 0x78, 0x31, 0x62, 0x1b, 0xff, 0x22]
        for _ in 0..<20_000 {
            let bytes = (0..<random.next() % 6).map { _ in letters[Int(random.next() % UInt64(letters.count))] }
            let label = ForeignText(name: InterfaceName.text(bytes)).prometheusLabel
            #expect(names.updateValue(bytes, forKey: label).map { $0 == bytes } ?? true, "seed \(seed), \(label)")
        }
    }

    @Test(arguments: [13, 4711] as [UInt64])
    func randomTextsAreReadBack(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let text = ForeignText(random.text(of: "a<3>&;\"'\\x\u{1b}\n\u{202e}", length: 20))
            let isRead = try Reader.label(text.prometheusLabel) == text.terminal && Reader.html(text.html) == text.terminal
            #expect(isRead && text.journal.firstMatch(of: /<[0-9]{1,3}>/) == nil, "seed \(seed), \(text.terminal)")
        }
    }

    /// The inverse rules, from the specifications.
    private enum Reader {
        struct Malformed: Error { var text: String }

        /// The text format of Prometheus: in the value of a label, backslash, quotation mark and line feed are escaped.
        static func label(_ value: String) throws -> String {
            var text = ""
            var rest = value.unicodeScalars[...]
            while let scalar = rest.popFirst() {
                switch scalar {
                case "\"", "\n": throw Malformed(text: value)
                case "\\":
                    switch rest.popFirst() {
                    case "\\": text += "\\"
                    case "\"": text += "\""
                    case "n": text += "\n"
                    default: throw Malformed(text: value)
                    }
                default: text.unicodeScalars.append(scalar)
                }
            }
            return text
        }

        /// XML 1.0: characters (§2.2), attribute values (§2.3), character data (§2.4), references (§4.1, §4.6).
        ///
        /// HTML reads the same in both places.
        static func html(_ value: String) throws -> String {
            let references = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "#39": "'"]
            var text = ""
            var rest = value.unicodeScalars[...]
            while let scalar = rest.popFirst() {
                switch scalar.value {
                // Attribute values may be in either kind of quotation marks.
                case 0x3c, 0x3e, 0x22, 0x27: throw Malformed(text: value)
                case 0x26:
                    let name = String(rest.prefix { $0 != ";" })
                    rest = rest.dropFirst(name.unicodeScalars.count)
                    guard let character = references[name], rest.popFirst() == ";" else { throw Malformed(text: value) }
                    text += character
                case 0x20...0xd7ff, 0xe000...0xfffd, 0x10000...0x10ffff: text.unicodeScalars.append(scalar)
                // Line feed, tab and return are characters, but attribute values lose them (§3.3.3).
                default: throw Malformed(text: value)
                }
            }
            return text
        }
    }
}
