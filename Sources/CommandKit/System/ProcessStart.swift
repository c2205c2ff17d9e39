import CProcess
package import Glibc

/// A program to execute.
package struct ProcessStart: Sendable {
    /// The files to try, in order.
    package var files: [[UInt8]]
    /// The arguments, beginning with the program's name.
    package var words: [[UInt8]]

    /// Creates it.
    package init(files: [[UInt8]], words: [[UInt8]]) { (self.files, self.words) = (files, words) }

    /// The error of a program that did not start: the error number, and the index of the file that failed.
    package struct Failure: Error, Hashable {
        package let number: Int32
        package let file: Int?
    }

    /// Starts it with this program's environment and inherited limit of open files.
    ///
    /// - Parameters:
    ///   - hasOwnGroup: True if it leads a process group of its own.
    ///   - descriptors: The descriptors that it gets as 0, 1, 2 and so on; `nil` gives it the standard ones.
    package func spawn(hasOwnGroup: Bool, descriptors: [Int32]? = nil) -> Result<pid_t, Failure> {
        let files = files.map(Self.cString)
        let words = words.map(Self.cString)
        defer { for string in files + words { string.deallocate() } }
        let fileList = files.map { UnsafePointer($0) as UnsafePointer<CChar>? } + [nil]
        let wordList = words.map { $0 as UnsafeMutablePointer<CChar>? } + [nil]
        return fileList.withUnsafeBufferPointer { files in
            wordList.withUnsafeBufferPointer { words in
                (descriptors ?? []).withUnsafeBufferPointer { numbers in
                    guard let files = files.baseAddress, let words = words.baseAddress else {
                        return .failure(Failure(number: ENOENT, file: nil))
                    }
                    var start = cprocess_start(
                        files: files, arguments: words, has_own_group: hasOwnGroup,
                        open_files: UInt64(ProcessSetup.inheritedFileLimit.rlim_cur),
                        descriptors: descriptors == nil ? nil : numbers.baseAddress, descriptor_count: Int32(numbers.count))
                    var failed: Int32 = -1
                    let pid = cprocess_spawn(&start, &failed)
                    return pid > 0 ? .success(pid) : .failure(Failure(number: -pid, file: failed < 0 ? nil : Int(failed)))
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
