import Foundation
import TestSupport
import Testing

@testable import ReachableFleet

@Suite struct EpochFileTests {
    /// Runs a body with a folder of its own.
    private func withFolder(_ body: (TemporaryFolder, EpochFile) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try body(folder, EpochFile(directory: folder.path, site: TestMember.name("a-b"), node: TestMember.name("c")))
    }

    @Test func storedEpochIsRead() throws {
        try withFolder { folder, file in
            #expect(file.read() == 0)
            for epoch: UInt64 in [1, 7, WordCoding.largestNumber] {
                #expect(file.write(epoch) == 0)
                #expect(file.read() == epoch)
            }
            let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(folder.names.count == 1)
        }
    }

    @Test func nodesHaveFilesOfTheirOwn() throws {
        try withFolder { folder, file in
            let other = EpochFile(directory: folder.path, site: TestMember.name("a"), node: TestMember.name("b-c"))
            #expect(other.path != file.path)
        }
    }

    @Test(arguments: ["", "7", "x\n", "7x\n", "-7\n", "99999999999999999999\n", "9007199254740993\n", "\n"])
    func otherContentsCountAsNone(text: String) throws {
        try withFolder { _, file in
            try Data(text.utf8).write(to: URL(fileURLWithPath: file.path))
            #expect(file.read() == 0)
        }
    }

    @Test func linkIsNotFollowed() throws {
        try withFolder { folder, file in
            let other = try folder.write("7\n", to: "other")
            try FileManager.default.createSymbolicLink(atPath: file.path, withDestinationPath: other)
            #expect(file.read() == 0)
            try FileManager.default.createSymbolicLink(atPath: file.path + ".new", withDestinationPath: other)
            #expect(file.write(8) == 0 && file.read() == 8)
            #expect(folder.read("other") == "7\n")
        }
    }

    @Test func missingFolderIsAnError() {
        let file = EpochFile(directory: "/nowhere", site: TestMember.name("a"), node: TestMember.name("b"))
        #expect(file.read() == 0 && file.write(1) == ENOENT)
    }
}
