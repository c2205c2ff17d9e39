import CNetlink
import Glibc
import TestSupport
import Testing

/// Folders like /etc/iproute2.
extension TemporaryFolder {
    fileprivate func collect(_ names: [String] = ["etc"], capacity: Int = 1 << 18) -> [UInt8] {
        let folders = names.map { strdup("\(path)/\($0)") }
        defer { for folder in folders { free(folder) } }
        let pointers = folders.compactMap { UnsafePointer($0) }
        var bytes = [CChar](repeating: 0x7E, count: capacity + 1)
        let length = cnl_collect_names(pointers, pointers.count, "rt_tables", &bytes, capacity)
        #expect(length <= capacity && bytes[capacity] == 0x7E)
        return bytes.prefix(length).map(UInt8.init(bitPattern:))
    }
}

@Suite(.timeLimit(.minutes(10))) struct NamesTests {
    private func bytes(_ file: some Collection<UInt8>) throws -> [UInt8] {
        let folders = try TemporaryFolder()
        try folders.write(file, to: "etc/rt_tables")
        return folders.collect()
    }

    private func text(_ file: some Collection<UInt8>) throws -> String { String(decoding: try bytes(file), as: UTF8.self) }

    @Test func numberedLinesAreCollected() throws {
        let file = "#\n# reserved values\n#\n255\tlocal\n\n  0x42  vpn # office\n100 a#b\n4294967295 last\r\n7 unended"
        #expect(try text(file.utf8) == "255 local\n66 vpn\n100 a\n-1 last\n7 unended\n")
    }

    @Test(arguments: [
        "name", "12", "12 ", "12 #", "-1 minus", "+1 plus", "4294967296 large", "99999999999999999999999 larger", "12name", "0x",
        " ", "1\u{0} nul", "1 na\u{0}me",
    ])
    func otherLinesAreSkipped(line: String) throws {
        #expect(try text("1 before\n\(line)\n2 after\n".utf8) == "1 before\n2 after\n")
    }

    @Test func namesAreBytesWithALimit() throws {
        #expect(try bytes([0x31, 0x20, 0xFF, 0x1B, 0x5B, 0x0A]) == [0x31, 0x20, 0xFF, 0x1B, 0x5B, 0x0A])
        let fits = String(repeating: "n", count: 63)
        #expect(try text("1 \(fits)\n2 \(fits)n\n".utf8) == "1 \(fits)\n")
    }

    @Test func foldersAreReadInOrder() throws {
        let folders = try TemporaryFolder()
        try folders.write("1 file\n", to: "etc/rt_tables")
        try folders.write("2 b\n", to: "etc/rt_tables.d/b.conf")
        try folders.write("3 a\n", to: "etc/rt_tables.d/a.conf")
        try folders.write("4 readme\n", to: "etc/rt_tables.d/README")
        try folders.write("5 hidden\n", to: "etc/rt_tables.d/.hidden.conf")
        try folders.write("6 usr\n", to: "usr/rt_tables")
        #expect(String(decoding: folders.collect(["etc", "none", "usr"]), as: UTF8.self) == "3 a\n2 b\n1 file\n6 usr\n")
    }

    @Test func hugeFilesAreTruncated() throws {
        let folders = try TemporaryFolder()
        // The limit is inside a name.
        let line = "12345678 \(String(repeating: "n", count: 40))\n"
        try folders.write(String(repeating: line, count: 100_000), to: "etc/rt_tables")
        #expect(String(decoding: folders.collect(), as: UTF8.self) == String(repeating: line, count: 65_536 / 50))
        #expect(String(decoding: folders.collect(capacity: 60), as: UTF8.self) == line)
        #expect(folders.collect(capacity: 0).isEmpty)
    }

    @Test func onlyRegularFilesAreRead() throws {
        let folders = try TemporaryFolder()
        try folders.write([], to: "etc/other")
        #expect(mkfifo("\(folders.path)/etc/rt_tables", 0o600) == 0, "opening it must not wait for a writer")
        #expect(folders.collect().isEmpty)
        try folders.write([], to: "usr/rt_tables/inner")
        #expect(symlink("/dev/zero", "\(folders.path)/usr/rt_tables.d") == 0)
        #expect(folders.collect(["usr"]).isEmpty)
    }

    @Test func randomBytesAreHarmless() throws {
        var generator = SystemRandomNumberGenerator()
        let frequent = Array("0123456789 \n#x".utf8)
        for _ in 0..<200 {
            let file = (0..<Int.random(in: 0...300, using: &generator)).map { _ -> UInt8 in
                let isAny = Bool.random(using: &generator)
                return isAny ? UInt8.random(in: 0...255, using: &generator) : frequent.randomElement(using: &generator) ?? 0
            }
            let lines = try bytes(file).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            for line in lines.dropLast() {
                let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
                #expect(words.count == 2 && Int32(String(decoding: words[0], as: UTF8.self)) != nil && !words[1].isEmpty, "\(file)")
            }
            #expect(lines.last?.isEmpty == true)
        }
    }

    private func name(_ put: (UnsafeMutablePointer<CChar>) -> Bool) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(CNL_ROUTE_NAME_SIZE))
        return put(&buffer) ? buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } } : nil
    }

    @Test func wellKnownNumbersHaveNames() {
        #expect([255, 254].map { number in name { cnl_table_name(number, $0) } } == ["local", "main"])
        let protocols: [UInt8] = [2, 3, 4, 9, 16]
        #expect(protocols.map { number in name { cnl_protocol_name(number, $0) } } == ["kernel", "boot", "static", "ra", "dhcp"])
        let scopes: [UInt8] = [0, 200, 253, 254, 255]
        #expect(scopes.map { number in name { cnl_scope_name(number, $0) } } == ["global", "site", "link", "host", "nowhere"])
        #expect([0, 3, 6].map { number in name { cnl_state_name(number, $0) } } == ["unknown", "lowerlayerdown", "up"])
    }

    @Test func unknownNumbersHaveNone() {
        #expect(name { cnl_table_name(3_123_456_789, $0) } == nil && name { cnl_protocol_name(254, $0) } == nil)
        #expect(name { cnl_scope_name(77, $0) } == nil && name { cnl_state_name(200, $0) } == nil)
    }
}
