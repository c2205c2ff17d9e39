import Glibc
import Reachability

/// The words of this program's command line as the system hands them over: file names need not be text.
enum RawArguments {
    /// The words behind the first `--`.
    static var behindTerminator: [[UInt8]] {
        var words: [[UInt8]] = []
        var isBehind = false
        var pointer = CommandLine.unsafeArgv
        while let word = pointer.pointee {
            let bytes = bytes(word)
            if isBehind { words.append(bytes) }
            if bytes == Array("--".utf8) { isBehind = true }
            pointer += 1
        }
        return words
    }

    /// The words as texts, without the program's name.
    ///
    /// Words that are not UTF-8 are written as the library writes names of interfaces, so that an interface can have any name.
    static var texts: [String] {
        var texts: [String] = []
        var pointer = CommandLine.unsafeArgv
        while let word = pointer.pointee {
            let bytes = bytes(word)
            texts.append(String(validating: bytes, as: UTF8.self) ?? InterfaceName.text(bytes))
            pointer += 1
        }
        return Array(texts.dropFirst())
    }

    /// The bytes of a C string.
    static func bytes(_ string: UnsafePointer<CChar>) -> [UInt8] {
        UnsafeBufferPointer(start: string, count: strlen(string)).map(UInt8.init(bitPattern:))
    }
}
