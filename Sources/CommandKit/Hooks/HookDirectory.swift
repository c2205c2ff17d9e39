package import Glibc
import Synchronization

/// The reason why a directory or a file of hooks is refused.
package struct HookProblem: Error, Hashable, CustomStringConvertible {
    /// The reason and, after `next:`, a remedy.
    package let description: String
}

/// A directory of hooks, as run-parts(8) reads it: executable files in the order of their names.
///
/// Files are checked by descriptor, and the checked descriptor is what is executed: nothing can replace it in between. A hook
/// that is a script therefore sees `/dev/fd/3` as its name; REACHABILITY_HOOK has the path.
package final class HookDirectory: Sendable {
    private let path: ForeignText
    private let owners: Set<uid_t>
    private let execute: Execution
    private let say: @Sendable (String) -> Void
    private let known = Mutex<Set<HookProblem>>([])

    /// O_PATH of asm-generic/fcntl.h, which Swift cannot import.
    private static let pathOnly: Int32 = 0o10_000_000

    /// Executes a descriptor until the program ends; see ``ChildSupervisor/runHook(_:executing:)``.
    package typealias Execution = @Sendable (ProcessStart, _ file: Int32) async throws(ChildFailure) -> Void

    /// - Parameters:
    ///   - path: The path of the directory.
    ///   - owners: The users that may own the directory and its files: root and this program's user.
    ///   - say: Takes messages for people.
    ///   - execute: Executes a hook.
    package init(
        _ path: [UInt8], owners: Set<uid_t> = [0, geteuid()], say: @escaping @Sendable (String) -> Void,
        execute: @escaping Execution
    ) {
        (self.path, self.owners, self.say, self.execute) = (ForeignText(path), owners, say, execute)
    }

    /// Returns the names of the hooks that may run, in their order, and the problems of the others.
    package func scan() -> (names: [String], problems: [HookProblem]) {
        do throws(HookProblem) {
            let directory = try OpenDirectory(path, owners)
            var names: [String] = []
            var problems: [HookProblem] = []
            for name in directory.names.filter(Self.isHook).sorted() {
                do throws(HookProblem) {
                    guard let file = try open(name, in: directory) else { continue }
                    close(file)
                    names.append(name)
                } catch {
                    problems.append(error)
                }
            }
            return (names, problems)
        } catch {
            return ([], [error])
        }
    }

    /// Checks a hook and returns a descriptor to execute it; `nil` if it is no executable file.
    package func open(_ name: String) throws(HookProblem) -> Int32? { try open(name, in: OpenDirectory(path, owners)) }

    /// Returns `true` for letters, digits, `_`, `-` and `.`, but not for hidden files, and copies that editors and package managers
    /// leave.
    package static func isHook(_ name: String) -> Bool {
        guard let first = name.utf8.first, first != UInt8(ascii: ".") else { return false }
        let isPlain = name.utf8.allSatisfy { byte in
            let letter = byte | 0x20
            return (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(letter)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || [UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: ".")].contains(byte)
        }
        let copies = [".bak", ".orig", ".swp", ".rpmnew", ".rpmorig", ".rpmsave"]
        return isPlain && !copies.contains(where: name.hasSuffix) && !name.contains(".dpkg-") && !name.contains(".ucf-")
    }

    private func open(_ name: String, in directory: borrowing OpenDirectory) throws(HookProblem) -> Int32? {
        let path = "\(quotation(path.text))/\(name)"
        func find(_ name: String) throws(HookProblem) -> (descriptor: Int32, stat: stat)? {
            let descriptor = openat(directory.descriptor, name, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
            var information = stat()
            if descriptor >= 0, fstat(descriptor, &information) == 0 { return (descriptor, information) }
            let number = errno
            if descriptor >= 0 { close(descriptor) }
            if number == ENOENT { return nil }
            throw HookProblem(description: "the hook \(path) cannot be opened: \(errorText(number)); next: check its permissions")
        }
        guard var file = try find(name) else { return nil }
        if file.stat.st_mode & S_IFMT == S_IFLNK {
            let target = Self.target(file.descriptor)
            close(file.descriptor)
            // Switched off, as units of systemd are (systemctl(1), mask).
            if target == "/dev/null" { return nil }
            guard let target, !target.contains("/"), target != "..", target != "." else {
                throw HookProblem(
                    description: "the hook \(path) is a link that leads out of the directory; next: copy the program into it")
            }
            guard let next = try find(target) else { return nil }
            file = next
        }
        if file.stat.st_mode & S_IFMT == S_IFREG, file.stat.st_mode & 0o111 != 0 {
            guard let problem = Self.problem(of: "the hook \(path)", file.stat, owners) else { return file.descriptor }
            close(file.descriptor)
            throw problem
        }
        close(file.descriptor)
        if file.stat.st_mode & S_IFMT == S_IFLNK {
            throw HookProblem(description: "the hook \(path) is a link to a link; next: link to the program itself")
        }
        return nil
    }

    private static func target(_ link: Int32) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlinkat(link, "", &buffer, buffer.count)
        return count < 0 ? nil : String(validating: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Returns the problem of a directory or a file: other users could replace or change it, or it runs as another user.
    ///
    /// An access control list that lets others write shows in the bits of the group (acl(5), "correspondence").
    fileprivate static func problem(of subject: String, _ information: stat, _ owners: Set<uid_t>) -> HookProblem? {
        if !owners.contains(information.st_uid) {
            return HookProblem(
                description: "\(subject) belongs to user \(information.st_uid), who could change it; "
                    + "next: give it to root (chown root)")
        }
        if information.st_mode & 0o022 != 0 {
            return HookProblem(description: "\(subject) can be written by other users; next: chmod go-w")
        }
        if information.st_mode & S_IFMT == S_IFREG, information.st_mode & (S_ISUID | S_ISGID) != 0 {
            return HookProblem(description: "\(subject) runs as another user or group; next: chmod ug-s")
        }
        return nil
    }

    /// An open and checked directory.
    private struct OpenDirectory: ~Copyable {
        private let stream: OpaquePointer
        let descriptor: Int32

        init(_ path: ForeignText, _ owners: Set<uid_t>) throws(HookProblem) {
            let subject = "the directory \(quotation(path.text))"
            let descriptor = Glibc.open(path.cString, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            var information = stat()
            guard descriptor >= 0, fstat(descriptor, &information) == 0, let stream = fdopendir(descriptor) else {
                let number = errno
                if descriptor >= 0 { close(descriptor) }
                throw HookProblem(
                    description: "\(subject) cannot be read: \(errorText(number)); next: create it, or correct the path")
            }
            if let problem = HookDirectory.problem(of: subject, information, owners) {
                closedir(stream)
                throw problem
            }
            (self.stream, self.descriptor) = (stream, descriptor)
        }

        deinit { closedir(stream) }

        /// The names of its files.
        var names: [String] {
            var names: [String] = []
            while let entry = readdir(stream) {
                names.append(
                    withUnsafePointer(to: &entry.pointee.d_name) {
                        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                    })
            }
            return names
        }
    }
}

extension HookDirectory: HookPrograms {
    /// Returns the names of the hooks that may run, and reports each new problem once.
    package func names() -> [String] {
        let (names, problems) = scan()
        let old = known.withLock { known in
            defer { known = Set(problems) }
            return known
        }
        for problem in problems where !old.contains(problem) { say("\(problem)") }
        return names
    }

    package func run(_ name: String, _ facts: HookFacts) async throws {
        guard let file = try open(name) else { return }
        defer { close(file) }
        let hook = path.bytes + Array("/\(name)".utf8)
        var start = ProcessStart(files: [hook], words: [hook, Array(facts.status.utf8)])
        start.environment = facts.environment(inherited: ProcessStart.ownEnvironment, hook: hook)
        try await execute(start, file)
    }
}
