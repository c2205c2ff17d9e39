import Reachability
import Testing

@Suite struct InterfaceNameTests {
    @Test(arguments: [
        ("eth0", "eth0"), ("größe", "größe"), ("a\u{1b}[31m", "a\u{1b}[31m"), ("a\\b", "a\\x5cb"), ("", ""),
    ])
    func textStaysAsItIsButForBackslashes(name: String, text: String) {
        #expect(InterfaceName.text(Array(name.utf8)) == text)
    }

    @Test(arguments: [
        ([0x61, 0xff, 0xfe] as [UInt8], "a\\xff\\xfe"), ([0xc3], "\\xc3"), ([0xc3, 0xa4, 0xc3], "ä\\xc3"),
        ([0x01, 0x80], "\u{1}\\x80"),
        ([0xf0, 0x9f, 0x92], "\\xf0\\x9f\\x92"), ([0xed, 0xa0, 0x80], "\\xed\\xa0\\x80"),
    ])
    func bytesThatAreNoTextAreWrittenInHexadecimal(name: [UInt8], text: String) {
        #expect(InterfaceName.text(name) == text)
    }

    @Test func differentNamesStayDifferent() {
        var seen: [String: [UInt8]] = [:]
        let alphabet: [UInt8] = [0x5c, 0x78, 0x66, 0xff, 0xc3, 0xa4, 0x30]
        func extend(_ name: [UInt8]) {
            let text = InterfaceName.text(name)
            #expect(seen[text] == nil, "\(name) and \(seen[text] ?? []) are both \(text)")
            seen[text] = name
            if name.count < 4 { for byte in alphabet { extend(name + [byte]) } }
        }
        extend([])
        #expect(seen.count == 1 + 7 + 49 + 343 + 2401)
    }
}
