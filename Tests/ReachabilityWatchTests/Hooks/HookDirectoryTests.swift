import Glibc
import Synchronization
import TestTraits
import Testing

@testable import CommandKit

/// Directories of hooks: their order, and who could have put something into them.
@Suite(.blocking) struct HookDirectoryTests {
    private let folder = Folder()

    private func directory(_ path: String? = nil, owners: Set<uid_t> = [0, geteuid()]) -> HookDirectory {
        HookDirectory(Array((path ?? folder.path).utf8), owners: owners, say: { _ in }, execute: { _, _ in })
    }

    private func problems(_ name: String) -> [String] {
        directory().scan().problems.map(\.description).filter { $0.contains(name) }
    }

    @Test func executableFilesComeInTheOrderOfTheirNames() throws {
        for name in ["b", "10-a.sh", "Z_2", "2"] { try folder.write(name) }
        try folder.write("README", mode: 0o644)
        for name in [".hidden", "copy~", "a b", "b.bak", "b.dpkg-old", "b.ucf-dist", "ü", "b.rpmsave", "b.swp", "b.orig"] {
            try folder.write(name)
        }
        #expect(mkdir("\(folder.path)/folder", 0o755) == 0)
        #expect(mkfifo("\(folder.path)/fifo", 0o755) == 0)
        let (names, problems) = directory().scan()
        #expect(names == ["10-a.sh", "2", "Z_2", "b"])
        #expect(problems.isEmpty)
    }

    @Test(arguments: [0o775, 0o757, 0o777] as [mode_t])
    func filesThatOthersWriteAreRefused(mode: mode_t) throws {
        try folder.write("good")
        try folder.write("bad", mode: mode)
        #expect(directory().scan().names == ["good"])
        #expect(problems("/bad ") == ["the hook \(folder.path)/bad can be written by other users; next: chmod go-w"])
    }

    @Test(arguments: [0o4755, 0o2755] as [mode_t])
    func filesThatRunAsAnotherUserAreRefused(mode: mode_t) throws {
        try folder.write("bad", mode: mode)
        #expect(problems("/bad ") == ["the hook \(folder.path)/bad runs as another user or group; next: chmod ug-s"])
    }

    @Test(arguments: [0o775, 0o777, 0o1777] as [mode_t])
    func directoriesThatOthersWriteAreRefused(mode: mode_t) throws {
        try folder.write("good")
        chmod(folder.path, mode)
        let (names, problems) = directory().scan()
        #expect(names.isEmpty)
        #expect(problems.map(\.description) == ["the directory \(folder.path) can be written by other users; next: chmod go-w"])
    }

    @Test func directoriesOfOtherUsersAreRefused() throws {
        try folder.write("good")
        let (names, problems) = directory(owners: [geteuid() + 1]).scan()
        #expect(names.isEmpty)
        #expect(problems.map(\.description).first?.hasPrefix("the directory \(folder.path) belongs to user \(geteuid()), ") == true)
    }

    @Test(.enabled(if: geteuid() == 0)) func filesOfOtherUsersAreRefused() throws {
        try folder.write("bad")
        // A user namespace may map only one user.
        guard chown("\(folder.path)/bad", 1, 1) == 0 else { return }
        #expect(directory().scan().names.isEmpty)
        #expect(problems("/bad ").first?.contains("belongs to user 1, who could change it; next: ") == true)
    }

    @Test func linksStayInTheDirectory() throws {
        try folder.write("target", mode: 0o755)
        try folder.write("loose", mode: 0o777)
        let links = [
            ("inside", "target"), ("outside", "/bin/true"), ("above", "../target"), ("up", ".."), ("masked", "/dev/null"),
            ("gone", "nothing"), ("twice", "inside"), ("slack", "loose"),
        ]
        for (name, target) in links { #expect(symlink(target, "\(folder.path)/\(name)") == 0) }
        #expect(directory().scan().names == ["inside", "target"])
        for name in ["outside", "above", "up"] {
            #expect(problems("/\(name) ").first?.contains("is a link that leads out of the directory; next: ") == true, "\(name)")
        }
        #expect(problems("/twice ").first?.contains("is a link to a link; next: ") == true)
        #expect(problems("/slack ").count == 1 && problems("masked").isEmpty && problems("gone").isEmpty)
    }

    @Test func aMissingDirectoryIsAProblem() {
        let path = "\(folder.path)/nothing"
        let (names, problems) = directory(path).scan()
        #expect(names.isEmpty)
        #expect(
            problems.map(\.description) == [
                "the directory \(path) cannot be read: No such file or directory; next: create it, or correct the path"
            ])
        let file = directory("/etc/passwd").scan()
        #expect(file.problems.first?.description.contains("Not a directory") == true)
    }

    @Test func aFileIsCheckedAgainBeforeItsStart() throws {
        try folder.write("hook")
        let directory = directory()
        #expect(directory.scan().names == ["hook"])
        chmod("\(folder.path)/hook", 0o777)
        #expect(throws: HookProblem.self) { try directory.open("hook") }
        chmod("\(folder.path)/hook", 0o644)
        #expect(try directory.open("hook") == nil)
        unlink("\(folder.path)/hook")
        #expect(try directory.open("hook") == nil)
    }

    @Test func problemsAreReportedOnce() throws {
        let messages = Mutex<[String]>([])
        try folder.write("bad", mode: 0o777)
        let directory = HookDirectory(
            Array(folder.path.utf8), say: { text in messages.withLock { $0.append(text) } }, execute: { _, _ in })
        for _ in 1...3 { #expect(directory.names().isEmpty) }
        #expect(messages.withLock(\.count) == 1)
        chmod("\(folder.path)/bad", 0o755)
        #expect(directory.names() == ["bad"])
        chmod("\(folder.path)/bad", 0o777)
        #expect(directory.names().isEmpty)
        #expect(messages.withLock(\.count) == 2)
    }

    @Test func theCheckedFileIsExecuted() async throws {
        try folder.write("hook", text: "#!/bin/sh\necho \"checked $# $1 $REACHABILITY_STATUS $REACHABILITY_HOOK\"")
        try folder.write("other", text: "#!/bin/sh\necho replaced")
        let path = folder.path
        let output = try await output { #expect(rename("\(path)/other", "\(path)/hook") == 0) }
        #expect(output == "checked 1 offline offline \(path)/hook")
    }

    @Test func aScriptWithoutInterpreterIsNamed() async throws {
        try folder.write("hook", text: "#!/no/such/shell")
        let failure = await #expect(throws: ChildFailure.self) { try await output {} }
        let reason = "the interpreter in its first line is missing; next: correct that line"
        #expect(failure?.description == "\(folder.path)/hook cannot be executed: \(reason)")
    }

    /// Runs the hook and returns the line that it writes.
    ///
    /// - Parameter change: A change of the directory after the check.
    private func output(after change: @escaping @Sendable () -> Void) async throws -> String {
        let pipe = try Pipe()
        let execute: HookDirectory.Execution = { start, file throws(ChildFailure) in
            change()
            var start = start
            start.descriptors = [STDIN_FILENO, pipe.writeEnd, STDERR_FILENO, file]
            start.executesDescriptor = true
            switch start.spawn(hasOwnGroup: true) {
            case .success(let pid):
                var status: Int32 = 0
                while waitpid(pid, &status, 0) == -1, errno == EINTR {}
            case .failure(let failure):
                throw ChildFailure(cause: .starting(start.words[0], failure.file.map { start.files[$0] }, failure.number))
            }
        }
        try await HookDirectory(Array(folder.path.utf8), say: { _ in }, execute: execute).run("hook", .numbered(0))
        pipe.closeWriteEnd()
        return pipe.readLine()
    }
}

/// A temporary directory of this user.
private final class Folder: Sendable {
    let path: String

    init() {
        path = "/tmp/reachability-watch-test-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        mkdir(path, 0o700)
        chmod(path, 0o755)
    }

    deinit { _ = try? Self.run("rm", "-rf", path) }

    /// Writes a file.
    ///
    /// In another process: a child that another test starts would inherit the descriptor, and execve(2) would fail with ETXTBSY.
    func write(_ name: String, mode: mode_t = 0o755, text: String = "#!/bin/sh") throws {
        try Self.run("sh", "-c", "printf '%s\\n' \"$1\" >\"$0\"", "\(path)/\(name)", text)
        guard chmod("\(path)/\(name)", mode) == 0 else { throw WatchProcess.Failure(operation: "chmod", errno: errno) }
    }

    private static func run(_ words: String...) throws {
        let pid = try ProcessStart(words: words.map { Array($0.utf8) }).spawn(hasOwnGroup: false).get()
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1, errno == EINTR {}
        guard status == 0 else { throw WatchProcess.Failure(operation: "\(words)", errno: status) }
    }
}
