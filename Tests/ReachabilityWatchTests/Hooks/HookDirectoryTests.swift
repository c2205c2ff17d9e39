import Glibc
import TestSupport
import Testing

@testable import CommandKit

/// Directories of hooks: their order, and who could have put something into them.
@Suite(.blocking) struct HookDirectoryTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func directory(_ path: String? = nil, owners: Set<uid_t> = [0, geteuid()]) -> HookDirectory {
        HookDirectory(Array((path ?? folder.path).utf8), files: TrustedFiles(owners: owners), execute: { _, _ in })
    }

    /// The names of the hooks that may run, and the problems of the others or of the directory.
    private func scan(_ directory: HookDirectory) -> (names: [String], problems: [String]) {
        var (names, problems): ([String], [String]) = ([], [])
        do throws(HookProblem) {
            for name in try directory.names() {
                do throws(HookProblem) {
                    if try directory.hasProgram(name) { names.append(name) }
                } catch {
                    problems.append(error.description)
                }
            }
        } catch {
            problems.append(error.description)
        }
        return (names, problems)
    }

    private func problems(_ name: String) -> [String] { scan(directory()).problems.filter { $0.contains(name) } }

    @Test func executableFilesComeInTheOrderOfTheirNames() throws {
        for name in ["b", "10-a.sh", "Z_2", "2"] { try folder.write(name) }
        try folder.write("README", mode: 0o644)
        for name in [".hidden", "copy~", "a b", "b.bak", "b.dpkg-old", "b.ucf-dist", "ü", "b.rpmsave", "b.swp", "b.orig"] {
            try folder.write(name)
        }
        #expect(mkdir("\(folder.path)/folder", 0o755) == 0)
        #expect(mkfifo("\(folder.path)/fifo", 0o755) == 0)
        let (names, problems) = scan(directory())
        #expect(names == ["10-a.sh", "2", "Z_2", "b"])
        #expect(problems.isEmpty)
    }

    @Test(arguments: [0o775, 0o757, 0o777] as [mode_t])
    func filesThatOthersWriteAreRefused(mode: mode_t) throws {
        try folder.write("good")
        try folder.write("bad", mode: mode)
        #expect(scan(directory()).names == ["good"])
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
        let (names, problems) = scan(directory())
        #expect(names.isEmpty)
        #expect(problems == ["the directory \(folder.path) can be written by other users; next: chmod go-w"])
    }

    @Test func directoriesOfOtherUsersAreRefused() throws {
        try folder.write("good")
        let (names, problems) = scan(directory(owners: [geteuid() + 1]))
        #expect(names.isEmpty)
        #expect(problems.first?.hasPrefix("the directory \(folder.path) belongs to user \(geteuid()), ") == true)
    }

    @Test(.enabled(if: geteuid() == 0)) func filesOfOtherUsersAreRefused() throws {
        try folder.write("bad")
        // A user namespace may map only one user.
        guard chown("\(folder.path)/bad", 1, 1) == 0 else { return }
        #expect(scan(directory()).names.isEmpty)
        #expect(problems("/bad ").first?.contains("belongs to user 1, who could change it; next: ") == true)
    }

    @Test func linksCountAsTheirTargets() throws {
        let other = try TemporaryFolder()
        try other.write("outside")
        try other.write("slack", mode: 0o777)
        try folder.write("target")
        let name = other.path.split(separator: "/").last ?? ""
        let links = [
            ("absolute", "\(other.path)/outside"), ("relative", "../\(name)/outside"), ("inside", "target"),
            ("twice", "./inside"), ("slack", "\(other.path)/slack"), ("masked", "/dev/null"), ("gone", "nothing"), ("up", ".."),
            ("loop", "loop"),
        ]
        for (name, target) in links { #expect(symlink(target, "\(folder.path)/\(name)") == 0) }
        #expect(scan(directory()).names == ["absolute", "inside", "relative", "target", "twice"])
        #expect(problems("/slack ") == ["the hook \(folder.path)/slack can be written by other users; next: chmod go-w"])
        #expect(problems("/loop ").first?.contains("Too many levels of symbolic links") == true)
        #expect(scan(directory()).problems.count == 2)
        // A directory that others can write, although its file is not.
        chmod(other.path, 0o777)
        #expect(scan(directory()).names == ["inside", "target", "twice"])
        #expect(
            problems("/absolute ") == [
                "the hook \(folder.path)/absolute is in \(other.path), which can be written by other users; next: chmod go-w"
            ])
        // With the sticky bit they cannot replace it.
        chmod(other.path, 0o1777)
        #expect(scan(directory()).names == ["absolute", "inside", "relative", "target", "twice"])
    }

    @Test(.enabled(if: geteuid() == 0)) func linksOfOtherUsersAreNotFollowedInOpenDirectories() throws {
        let other = try TemporaryFolder()
        try other.write("outside")
        #expect(symlink("outside", "\(other.path)/link") == 0 && symlink("\(other.path)/link", "\(folder.path)/hook") == 0)
        chmod(other.path, 0o1777)
        #expect(scan(directory()).names == ["hook"])
        guard lchown("\(other.path)/link", 1, 1) == 0 else { return }
        #expect(scan(directory()).names.isEmpty)
        #expect(problems("/hook ").first?.contains(" is reached through a link of user 1 ") == true)
        // In a directory of the owners, a link is what they have put there.
        chmod(other.path, 0o755)
        #expect(scan(directory()).names == ["hook"])
    }

    @Test func theWayToTheDirectoryCounts() throws {
        let path = "\(folder.path)/a/b"
        #expect(mkdir("\(folder.path)/a", 0o755) == 0 && mkdir(path, 0o755) == 0)
        try folder.write("a/b/hook")
        #expect(symlink("a", "\(folder.path)/link") == 0)
        for path in [path, "\(folder.path)/link/./b/", "\(path)/../b"] { #expect(scan(directory(path)).names == ["hook"]) }
        chmod("\(folder.path)/a", 0o775)
        for path in [path, "\(folder.path)/link/b"] {
            let (names, problems) = scan(directory(path))
            #expect(names.isEmpty)
            #expect(
                problems == [
                    "the directory \(quotation(path)) is in \(folder.path)/a, which can be written by other users; next: chmod go-w"
                ])
        }
    }

    @Test(.enabled(if: geteuid() == 0)) func aDirectoryOfAnotherUserOnTheWayIsRefused() throws {
        let path = "\(folder.path)/a/b"
        #expect(mkdir("\(folder.path)/a", 0o755) == 0 && mkdir(path, 0o755) == 0)
        try folder.write("a/b/hook")
        guard chown("\(folder.path)/a", 1, 1) == 0 else { return }
        #expect(scan(directory(path)).names.isEmpty)
        #expect(scan(directory(path)).problems.first?.contains(" belongs to user 1, who could replace it; next: ") == true)
    }

    @Test func aMissingDirectoryIsAProblem() {
        let path = "\(folder.path)/nothing"
        let (names, problems) = scan(directory(path))
        #expect(names.isEmpty)
        #expect(
            problems == [
                "the directory \(path) cannot be read: No such file or directory; "
                    + "next: create it, or correct the path or its permissions"
            ])
        #expect(scan(directory("/etc/passwd")).problems.first?.contains("Not a directory") == true)
        #expect(scan(directory("/etc/passwd/x")).problems.first?.contains("Not a directory") == true)
    }

    @Test func aFileIsCheckedAgainBeforeItsStart() async throws {
        try folder.write("hook")
        let directory = directory()
        #expect(try await directory.run("hook", .numbered(0)))
        chmod("\(folder.path)/hook", 0o777)
        await #expect(throws: HookProblem.self) { try await directory.run("hook", .numbered(0)) }
        chmod("\(folder.path)/hook", 0o644)
        #expect(try await !directory.run("hook", .numbered(0)))
        unlink("\(folder.path)/hook")
        #expect(try await !directory.run("hook", .numbered(0)))
    }

    @Test func aHookKnowsItsPath() async throws {
        try folder.write("hook", text: "#!/bin/sh\necho \"$0 $# $1 $REACHABILITY_STATUS $REACHABILITY_HOOK\"")
        #expect(try await output() == "\(folder.path)/hook 1 offline offline \(folder.path)/hook")
    }

    @Test(arguments: [
        ("#!/no/such/shell", "the interpreter in its first line is missing; next: correct that line"),
        ("echo no shell reads this", "not a program; next: begin a script with a line such as #!/bin/sh"),
    ])
    func filesThatAreNoProgramsAreNamed(text: String, reason: String) async throws {
        try folder.write("hook", text: text)
        let failure = await #expect(throws: ChildFailure.self) { try await output() }
        #expect(failure?.description == "\(folder.path)/hook cannot be executed: \(reason)")
    }

    @Test func theModesOfNewFilesAreThoseOfTheUser() async throws {
        try folder.write("hook", text: "#!/bin/sh\numask")
        #expect(try await output(fileModeMask: 0o027) == "0027")
    }

    /// Runs the hook and returns the line that it writes.
    private func output(fileModeMask: mode_t? = nil) async throws -> String {
        let pipe = try Pipe()
        let execute: HookDirectory.Execution = { _, start throws(ChildFailure) in
            var start = start
            start.descriptors = [STDIN_FILENO, pipe.writeEnd, STDERR_FILENO]
            start.fileModeMask = fileModeMask
            switch start.spawn(hasOwnGroup: true) {
            case .success(let pid): _ = awaitEnd(of: pid)
            case .failure(let failure):
                throw ChildFailure(cause: .starting(start.words[0], failure.file.map { start.files[$0] }, failure.number))
            }
        }
        _ = try await HookDirectory(Array(folder.path.utf8), execute: execute).run("hook", .numbered(0))
        pipe.closeWriteEnd()
        return pipe.readLine()
    }
}

extension TemporaryFolder {
    fileprivate func write(_ name: String, mode: mode_t = 0o755, text: String = "#!/bin/sh") throws {
        try writeProgram(text, to: name, mode: mode)
    }
}
