import CProcess
package import Glibc

/// A program to execute.
package struct ProcessStart: Sendable {
    /// The files to try, in order.
    package var files: [[UInt8]]
    /// The arguments, beginning with the program's name.
    package var words: [[UInt8]]
    /// The environment, as `NAME=VALUE`; `nil` for this program's.
    package var environment: [[UInt8]]?
    /// The descriptors that it gets as 0, 1, 2 and so on; `nil` for the standard ones.
    package var descriptors: [Int32]?
    /// The mask of the modes of new files (umask(2)); `nil` for this program's.
    package var fileModeMask: mode_t?

    /// Creates it.
    package init(files: [[UInt8]], words: [[UInt8]]) { (self.files, self.words) = (files, words) }

    /// Creates it for the words of a command line: the first is a path, or a name in the PATH.
    package init(words: [[UInt8]]) { self.init(files: Self.files(named: words.first ?? []), words: words) }

    /// Returns the files that a name may stand for, in the order of execvp(3).
    private static func files(named name: [UInt8]) -> [[UInt8]] {
        guard !name.contains(UInt8(ascii: "/")) else { return [name] }
        let path = getenv("PATH").map { RawArguments.bytes($0) } ?? Array("/bin:/usr/bin".utf8)
        // An empty folder is the current one.
        return path.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).map { folder in
            folder.isEmpty ? name : folder + [UInt8(ascii: "/")] + name
        }
    }

    /// The environment of this program, as `NAME=VALUE`.
    package static var ownEnvironment: [[UInt8]] {
        var variables: [[UInt8]] = []
        var pointer = environ
        while let variable = pointer.pointee {
            variables.append(RawArguments.bytes(variable))
            pointer += 1
        }
        return variables
    }

    /// The error of a program that did not start: the error number, and the index of the file that failed.
    package struct Failure: Error, Hashable {
        package let number: Int32
        package let file: Int?
    }

    /// Starts it with this program's inherited limit of open files.
    ///
    /// - Parameter hasOwnGroup: True if it leads a process group of its own.
    package func spawn(hasOwnGroup: Bool) -> Result<pid_t, Failure> {
        let files = files.map(Self.cString)
        let words = words.map(Self.cString)
        let variables = (environment ?? []).map(Self.cString)
        defer { for string in files + words + variables { string.deallocate() } }
        let fileList = files.map { UnsafePointer($0) as UnsafePointer<CChar>? } + [nil]
        let wordList = words.map { $0 as UnsafeMutablePointer<CChar>? } + [nil]
        let variableList = variables.map { $0 as UnsafeMutablePointer<CChar>? } + [nil]
        return fileList.withUnsafeBufferPointer { files in
            wordList.withUnsafeBufferPointer { words in
                variableList.withUnsafeBufferPointer { variables in
                    (descriptors ?? []).withUnsafeBufferPointer { numbers in
                        guard let files = files.baseAddress, let words = words.baseAddress else {
                            return .failure(Failure(number: ENOENT, file: nil))
                        }
                        var start = cprocess_start(
                            files: files, arguments: words, has_own_group: hasOwnGroup,
                            open_files: UInt64(ProcessSetup.inheritedFileLimit.rlim_cur),
                            descriptors: descriptors == nil ? nil : numbers.baseAddress, descriptor_count: Int32(numbers.count),
                            environment: environment == nil ? nil : variables.baseAddress,
                            file_mode_mask: fileModeMask.map(Int32.init) ?? -1)
                        var failed: Int32 = -1
                        let pid = cprocess_spawn(&start, &failed)
                        return pid > 0 ? .success(pid) : .failure(Failure(number: -pid, file: failed < 0 ? nil : Int(failed)))
                    }
                }
            }
        }
    }

    private static func cString(_ bytes: [UInt8]) -> UnsafeMutablePointer<CChar> {
        let string = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count + 1)
        for (index, byte) in bytes.enumerated() { (string + index).initialize(to: CChar(bitPattern: byte)) }
        (string + bytes.count).initialize(to: 0)
        return string
    }
}
