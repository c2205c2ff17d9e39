import Glibc
import Reachability

/// The words of the command line as bytes: file names need not be UTF-8.
package enum RawArguments {
    /// The words after the first `--`.
    package static var behindTerminator: [[UInt8]] {
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
    /// Words that are not UTF-8 are encoded like interface names in the library, so that every interface can be named.
    package static var texts: [String] {
        var texts: [String] = []
        var pointer = CommandLine.unsafeArgv
        while let word = pointer.pointee {
            let bytes = bytes(word)
            texts.append(ForeignText(bytes).text)
            pointer += 1
        }
        return Array(texts.dropFirst())
    }

    /// Returns the bytes of a C string.
    package static func bytes(_ string: UnsafePointer<CChar>) -> [UInt8] {
        UnsafeBufferPointer(start: string, count: strlen(string)).map(UInt8.init(bitPattern:))
    }
}
