import Glibc

/// A file that is replaced as a whole: its readers see the old content or the new one.
package enum OutputFile {
    /// Writes a file: a new one beside it that takes its name (rename(2)), readable for all as far as the umask permits.
    ///
    /// A symbolic link keeps leading to the file. Devices and pipes are written as they are.
    ///
    /// - Parameters:
    ///   - parts: The content, written part by part.
    ///   - path: The file.
    package static func write(_ parts: some Sequence<String>, to path: String) throws(CommandFailure) {
        let target = resolved(path)
        var information = stat()
        if stat(target, &information) == 0, information.st_mode & S_IFMT != S_IFREG {
            try write(parts, to: open(target, O_WRONLY | O_CLOEXEC), path)
            return
        }
        let temporary = "\(target).\(UInt64.random(in: 0 ... .max)).tmp"
        do throws(CommandFailure) {
            try write(parts, to: open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644), path)
            guard rename(temporary, target) == 0 else { throw failure(path, errno, .cannotCreate) }
        } catch {
            unlink(temporary)
            throw error
        }
    }

    private static func write(_ parts: some Sequence<String>, to descriptor: Int32, _ path: String) throws(CommandFailure) {
        guard descriptor >= 0 else { throw failure(path, errno, .cannotCreate) }
        defer { close(descriptor) }
        do throws(OutputFailure) {
            let output = DescriptorOutput(descriptor: descriptor)
            for part in parts { try output.write(bytes: Array(part.utf8)[...]) }
        } catch {
            guard case .refused(let number) = error else { return }
            throw failure(path, number, .outputFailed)
        }
        // Devices and pipes have nothing to flush (EINVAL).
        guard fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS else { throw failure(path, errno, .outputFailed) }
    }

    /// Returns the file that a name leads to.
    private static func resolved(_ path: String) -> String {
        guard let file = realpath(path, nil) else { return path }
        defer { free(file) }
        return String(cString: file)
    }

    private static func failure(_ path: String, _ error: Int32, _ status: ExitStatus) -> CommandFailure {
        CommandFailure(
            status, quotation(path), cannotBe: "written", error, otherwise: "check the directory and its permissions")
    }
}
