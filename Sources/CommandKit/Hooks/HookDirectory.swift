import Glibc

/// A directory of hooks, as run-parts(8) reads it: executable files in the order of their names.
///
/// Every file is checked right before its start; see ``TrustedFiles``.
package struct HookDirectory: HookPrograms {
    /// Executes a hook until it ends.
    package typealias Execution = @Sendable (_ name: String, ProcessStart) async throws(ChildFailure) -> Void

    private let path: ForeignText
    private let files: TrustedFiles
    private let execute: Execution

    /// - Parameters:
    ///   - path: The path of the directory.
    ///   - files: Opens its files.
    ///   - execute: Executes a hook.
    package init(_ path: [UInt8], files: TrustedFiles = TrustedFiles(), execute: @escaping Execution) {
        (self.path, self.files, self.execute) = (ForeignText(path), files, execute)
    }

    /// Returns the names that hooks may have, in their order; not all of them need to be executable files.
    package func names() throws(HookProblem) -> [String] {
        let subject = "the directory \(quotation(path.text))"
        let directory = try open()
        // The checked descriptor itself cannot be read (O_PATH).
        let readable = openat(directory.descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard readable >= 0, let stream = fdopendir(readable) else {
            let number = errno
            if readable >= 0 { close(readable) }
            throw TrustedFiles.unreadable(subject, number)
        }
        return namesInDirectory(stream).filter(Self.isHook).sorted()
    }

    package func run(_ name: String, _ facts: HookFacts) async throws -> Bool {
        guard try hasProgram(name) else { return false }
        let hook = path.bytes + Array("/\(name)".utf8)
        var start = ProcessStart(files: [hook], words: [hook, Array(facts.status.utf8)])
        start.environment = facts.environment(inherited: ProcessStart.ownEnvironment, hook: hook)
        try await execute(name, start)
        return true
    }

    /// Returns true for an executable file, and throws if other users could change it.
    package func hasProgram(_ name: String) throws(HookProblem) -> Bool {
        let subject = "the hook \(quotation(path.text))/\(name)"
        let directory = try open()
        guard let file = try files.open(Array(name.utf8), in: directory.descriptor, subject) else { return false }
        guard file.kind == S_IFREG, file.information.st_mode & 0o111 != 0 else { return false }
        if let problem = files.problem(of: file, subject) { throw problem }
        return true
    }

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

    private func open() throws(HookProblem) -> TrustedFiles.File {
        let subject = "the directory \(quotation(path.text))"
        guard let directory = try files.open(path.bytes, subject) else { throw TrustedFiles.unreadable(subject, ENOENT) }
        guard directory.kind == S_IFDIR else { throw TrustedFiles.unreadable(subject, ENOTDIR) }
        if let problem = files.problem(of: directory, subject) { throw problem }
        return directory
    }
}
