import Foundation
import TestSupport
import Testing

@testable import ReachableHTTP

/// The partial file of a download when its process is killed, its machine loses power, or others touch it.
@Suite struct PartialFileTests {
    private let folder: TemporaryFolder
    private let paths: PartialPaths

    init() throws {
        folder = try TemporaryFolder()
        paths = PartialPaths(folder.url.appendingPathComponent("file").path, id: "0001")
    }

    private func open(key: String = "key", bootID: String? = "boot") throws -> PartialFile {
        try PartialFile.open(paths, key: key, bootID: bootID)
    }

    /// Writes so many bytes of a representation, and ends like a process that is killed: nothing more is written or recorded.
    private func kill(after count: Int, validator: String? = "\"a\"", total: Int64? = 100) throws {
        let file = try open()
        try file.begin(validator: validator, total: total, status: 200, headers: [:])
        try file.append(Data(repeating: 7, count: count))
    }

    @Test func everyWrittenByteSurvivesAKill() throws {
        try kill(after: 50)
        let file = try open()
        #expect(file.length == 50 && file.record?.validator == "\"a\"" && file.record?.total == 100)
    }

    @Test func recordIsThereBeforeTheFirstByte() throws {
        try kill(after: 0)
        #expect(try open().record?.validator == "\"a\"")
    }

    @Test func onlySynchronizedBytesSurviveAPowerFailure() throws {
        do {
            let file = try open()
            try file.begin(validator: "\"a\"", total: 100, status: 200, headers: [:])
            try file.append(Data(repeating: 7, count: 30))
            try file.synchronize()
            try file.append(Data(repeating: 0, count: 20))
        }
        let file = try open(bootID: "another boot")
        #expect(file.length == 30)
        #expect(try Data(contentsOf: URL(fileURLWithPath: paths.part)).count == 30)
        #expect(PartialFile.placed(paths, key: "key") == nil)
    }

    @Test func unknownBootIsAnother() throws {
        try kill(after: 50)
        #expect(try open(bootID: nil).length == 0)
    }

    @Test func endOfAnAttemptSynchronizes() throws {
        let file = try open()
        try file.begin(validator: "\"a\"", total: 100, status: 200, headers: [:])
        try file.append(Data(repeating: 7, count: 50))
        file.close()
        #expect(try open(bootID: "another boot").length == 50)
    }

    @Test func manyBytesAreSynchronizedOnTheWay() throws {
        do {
            let file = try open()
            try file.begin(validator: "\"a\"", total: nil, status: 200, headers: [:])
            for _ in 0..<17 { try file.append(Data(count: 1 << 20)) }
        }
        #expect(try open(bootID: "another boot").length == PartialFile.synchronizationInterval)
    }

    @Test func newRepresentationVoidsTheOldOne() throws {
        try kill(after: 50)
        do {
            let file = try open()
            try file.begin(validator: "\"b\"", total: 10, status: 200, headers: [:])
        }
        let file = try open()
        #expect(file.length == 0 && file.record?.validator == "\"b\"")
    }

    @Test(arguments: [101, 200]) func longerFileStartsOver(length: Int) throws {
        try kill(after: 50)
        truncate(paths.part, length)
        let file = try open()
        #expect(file.length == 0 && file.record == nil)
    }

    @Test func cutFileStartsOver() throws {
        let file = try open()
        try file.begin(validator: "\"a\"", total: 100, status: 200, headers: [:])
        try file.append(Data(repeating: 7, count: 50))
        file.close()
        truncate(paths.part, 49)
        #expect(try open().record == nil)
    }

    @Test func fileOfAnotherPayloadStartsOver() throws {
        try kill(after: 50)
        #expect(try open(key: "new key").record == nil)
    }

    @Test func fileWithoutARecordStartsOver() throws {
        try kill(after: 50)
        for text in ["", "{", "{\"format\":1}"] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: paths.record))
            let file = try open()
            #expect(file.length == 0 && file.record == nil)
        }
    }

    @Test func fileWithoutAValidatorCountsOnlyAsAWhole() throws {
        try kill(after: 99, validator: nil)
        #expect(try open().record == nil)
        try kill(after: 100, validator: nil)
        let file = try open()
        #expect(file.isComplete)
        _ = try file.place()
        #expect(try Data(contentsOf: URL(fileURLWithPath: paths.destination)).count == 100)
    }

    @Test func openFileIsLocked() throws {
        let file = try open()
        let error = #expect(throws: DurableHTTPError.self) { _ = try open() }
        #expect(error?.code == .fileInUse)
        file.close()
        _ = try open()
    }

    @Test func placedFileIsRecognized() throws {
        do {
            let file = try open()
            try file.begin(validator: nil, total: nil, status: 200, headers: ["A": "b"])
            try file.append(Data("abc".utf8))
            _ = try file.place()
            file.close()
        }
        #expect(PartialFile.placed(paths, key: "key")?.headers == ["A": "b"])
        #expect(PartialFile.placed(paths, key: "another") == nil)
        try Data("abcd".utf8).write(to: URL(fileURLWithPath: paths.destination))
        #expect(PartialFile.placed(paths, key: "key") == nil, "a file that has changed is not the one")
    }

    /// Killed between the record and the move.
    @Test func fileThatWasNotMovedIsComplete() throws {
        let file = try open()
        try file.begin(validator: "\"a\"", total: nil, status: 200, headers: [:])
        try file.append(Data("abc".utf8))
        _ = try file.place()
        file.close()
        #expect(rename(paths.destination, paths.part) == 0)
        #expect(PartialFile.placed(paths, key: "key") == nil)
        #expect(try open().isComplete)
    }

    @Test func longNamesFit() throws {
        let name = String(repeating: "ü", count: 127)
        let paths = PartialPaths(folder.url.appendingPathComponent(name).path, id: String(repeating: "0", count: 32))
        let file = try PartialFile.open(paths, key: "key", bootID: "boot")
        try file.begin(validator: nil, total: 0, status: 200, headers: [:])
        _ = try file.place()
        #expect(FileManager.default.fileExists(atPath: paths.destination))
        #expect(PartialPaths("/file", id: "1").part == "/.file.1.part")
    }

    @Test func filesAreTheUsersAlone() throws {
        try kill(after: 50)
        for path in [paths.part, paths.record] {
            #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        }
    }

    @Test func removedFileIsNotPlaced() throws {
        let file = try open()
        try file.begin(validator: nil, total: 0, status: 200, headers: [:])
        paths.remove()
        let error = #expect(throws: DurableHTTPError.self) { _ = try file.place() }
        #expect(error?.code == .fileInUse)
    }
}

/// The hash function.
@Suite struct SHA256Tests {
    private func hash(_ bytes: [UInt8], pieces: Int = .max) -> String {
        var hash = SHA256()
        var rest = bytes[...]
        while !rest.isEmpty {
            rest.prefix(pieces).withUnsafeBytes { hash.update($0) }
            rest = rest.dropFirst(min(pieces, rest.count))
        }
        return hash.finish()
    }

    /// Examples of FIPS 180-4, from NIST's page of example values.
    @Test func examplesOfTheStandard() {
        #expect(hash([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(hash(Array("abc".utf8)) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            hash(Array("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".utf8))
                == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        #expect(
            hash(Array(repeating: UInt8(ascii: "a"), count: 1_000_000), pieces: 997)
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test func piecesDoNotMatter() {
        let bytes = (0..<300).map { UInt8(truncatingIfNeeded: $0) }
        for count in [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 300] {
            let expected = hash(Array(bytes.prefix(count)))
            for pieces in [1, 7, 63, 64, 65] { #expect(hash(Array(bytes.prefix(count)), pieces: pieces) == expected) }
        }
    }
}
