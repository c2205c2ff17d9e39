import Foundation
import Glibc
import TestSupport
import Testing

@testable import Reachability

extension TemporaryFolder {
    fileprivate func rename(_ old: String, to new: String) throws {
        try #require(Glibc.rename("\(path)/\(old)", "\(path)/\(new)") == 0)
    }

    fileprivate func remove(_ file: String) throws { try FileManager.default.removeItem(atPath: "\(path)/\(file)") }

    /// Replaces a file by a symbolic link, as `ln -sfn` does.
    fileprivate func link(_ file: String, to target: String) throws {
        try #require(symlink(target, "\(path)/\(file).new") == 0)
        try rename("\(file).new", to: file)
    }
}

/// The watch of the resolver's files, in a folder of the test's own.
struct ResolverFilesTests {
    /// A folder with /etc and /run.
    private static func makeRoot() throws -> TemporaryFolder {
        let root = try TemporaryFolder()
        try root.makeFolder("run")
        for file in ["resolv.conf", "hosts", "nsswitch.conf"] { try root.write("old", to: "etc/\(file)") }
        return root
    }

    private static let bit: Int32 = 0b100

    /// Returns the reported files of each change, and `nil` for a change without an event.
    private func reports(
        prepare: (TemporaryFolder) throws -> Void = { _ in }, _ changes: [(TemporaryFolder) throws -> Void]
    ) throws -> [[String]?] {
        let root = try Self.makeRoot()
        try prepare(root)
        let epoll = try Epoll()
        var files = ResolverFiles(root: root.path)
        files.noteLookup(reportedBy: epoll, at: Self.bit)
        var reports: [[String]?] = []
        for change in changes {
            #expect(try epoll.wait(nanoseconds: 0) == 0, "the watch is quiet before the change")
            try change(root)
            let isReported = try epoll.wait(nanoseconds: 0) == Self.bit
            reports.append(isReported ? files.takeChanges(at: .zero) : nil)
            // A watch that is no longer needed ends with an event (IN_IGNORED).
            if isReported, try epoll.wait(nanoseconds: 0) != 0 { #expect(files.takeChanges(at: .zero) == []) }
        }
        return reports
    }

    @Test(arguments: ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"])
    func eachWayToChangeAFileIsReported(path: String) throws {
        let file = String(path.dropFirst())
        let reports = try reports(
            [
                { try $0.write("in place", to: file) },
                { try $0.write("renamed", to: "run/file") }, { try $0.rename("run/file", to: file) },
                { try $0.remove(file) },
                { try $0.write("created", to: file) },
                { try $0.rename(file, to: "etc/kept") },
            ])
        #expect(reports[1] == nil || reports[1] == [], "a file elsewhere")
        #expect([0, 2, 3, 4, 5].map { reports[$0] } == Array(repeating: [path], count: 5))
    }

    @Test(arguments: ["/run/stub/resolv.conf", "../run/stub/../stub/./resolv.conf"])
    func targetsOfLinksAreWatched(target: String) throws {
        let reports = try reports(
            prepare: {
                try $0.write("first", to: "run/stub/resolv.conf")
                try $0.link("etc/resolv.conf", to: target)
            },
            [
                { try $0.write("in place", to: "run/stub/resolv.conf") },
                { try $0.write("new", to: "run/stub/new") }, { try $0.rename("run/stub/new", to: "run/stub/resolv.conf") },
                { try $0.link("etc/resolv.conf", to: "other.conf") },
                { try $0.write("came", to: "etc/other.conf") },
                // Behind the link of before.
                { try $0.write("unrelated", to: "run/stub/resolv.conf") },
                { try $0.link("etc/resolv.conf", to: target) },
                { try $0.remove("run/stub/resolv.conf") },
                { try $0.write("again", to: "run/stub/resolv.conf") },
            ])
        let change = ["/etc/resolv.conf"]
        #expect(reports == [change, [], change, change, change, nil, change, change, change])
    }

    /// At boot the service that owns the target has not made its folder yet.
    @Test func foldersThatComeLaterAreWatched() throws {
        let reports = try reports(
            prepare: { try $0.link("etc/resolv.conf", to: "/run/late/deep/resolv.conf") },
            [
                { try $0.makeFolder("run/late") }, { try $0.makeFolder("run/late/deep") },
                { try $0.write("1", to: "run/late/deep/resolv.conf") },
                { try $0.remove("run/late") },
                { try $0.makeFolder("run/systemd/resolve") }, { try $0.write("2", to: "run/systemd/resolve/resolv.conf") },
            ])
        #expect(
            reports == [[], [], ["/etc/resolv.conf"], ["/etc/resolv.conf"], [], ["/run/systemd/resolve/resolv.conf"]])
    }

    /// A link in the middle of a path changes, as /etc/static does on NixOS.
    @Test func linksToFoldersAreWatched() throws {
        let reports = try reports(
            prepare: {
                for store in ["a", "b"] { try $0.write(store, to: "run/\(store)/hosts") }
                try $0.link("etc/static", to: "/run/a")
                try $0.link("etc/hosts", to: "/etc/static/hosts")
            }, [{ try $0.link("etc/static", to: "/run/b") }, { try $0.write("more", to: "run/b/hosts") }])
        #expect(reports == [["/etc/hosts"], ["/etc/hosts"]])
    }

    /// A bind mount hides the folder that the file is in: its events come from the file alone.
    @Test func fileInAnUnwatchedFolderIsReported() throws {
        let reports = try reports(
            prepare: {
                try $0.write("first", to: "run/host/hosts")
                try $0.remove("etc/hosts")
                try #require(Glibc.link("\($0.path)/run/host/hosts", "\($0.path)/etc/hosts") == 0)
            }, [{ try $0.write("by its other name", to: "run/host/hosts") }])
        #expect(reports == [["/etc/hosts"]])
    }

    @Test func unrelatedFilesAreNotReported() throws {
        let reports = try reports(
            [
                { try $0.write("in place", to: "etc/passwd") }, { try $0.remove("etc/passwd") },
                { try $0.write("swap", to: "etc/.hosts.swp") },
            ])
        #expect(reports.allSatisfy { $0 == nil || $0 == [] })
    }

    @Test func loopOfLinksIsSurvived() throws {
        let reports = try reports(
            prepare: {
                try $0.link("etc/resolv.conf", to: "loop")
                try $0.link("etc/loop", to: "resolv.conf")
            }, [{ try $0.link("etc/loop", to: "hosts") }])
        #expect(reports == [["/etc/resolv.conf"]])
    }

    /// No host is watched any more: each change would be followed by a lookup.
    @Test func watchEndsWithTheLastHost() throws {
        let root = try Self.makeRoot()
        let epoll = try Epoll()
        var files = ResolverFiles(root: root.path)
        func change(_ text: String) throws -> Bool {
            try root.write(text, to: "etc/hosts")
            return try epoll.wait(nanoseconds: 0) == Self.bit
        }
        #expect(try !change("before the first lookup"))
        files.noteLookup(reportedBy: epoll, at: Self.bit)
        for second in [0, 3, 60, 64] {
            if second == 60 { files.noteLookup(reportedBy: epoll, at: Self.bit) }
            #expect(try change("\(second), watched") && files.takeChanges(at: .seconds(second)) == ["/etc/hosts"])
        }
        #expect(try change("last one") && files.takeChanges(at: .seconds(65)) == ["/etc/hosts"])
        #expect(try !change("unwatched"))
        files.noteLookup(reportedBy: epoll, at: Self.bit)
        #expect(try change("watched again") && files.takeChanges(at: .seconds(66)) == ["/etc/hosts"])
    }

    /// A reader without events looks at the files when it polls.
    @Test func changesAreFoundWithoutAWatch() throws {
        let root = try Self.makeRoot()
        var files = ResolverFiles(root: root.path)
        #expect(files.takeChanges(at: .zero) == [])
        try root.write("polled", to: "etc/nsswitch.conf")
        #expect(files.takeChanges(at: .zero) == ["/etc/nsswitch.conf"] && files.takeChanges(at: .zero) == [])
    }
}
