import Glibc
import Reachability

/// The words of the command line as bytes: file names need not be UTF-8.
package enum RawArguments {
    /// The words after the first `--`.
    package static var behindTerminator: [[UInt8]] {
        let words = words
        guard let terminator = words.firstIndex(of: Array("--".utf8)) else { return [] }
        return Array(words[(terminator + 1)...])
    }

    /// The words as texts, without the program's name.
    ///
    /// Words that are not UTF-8 are encoded like interface names in the library, so that every interface can be named.
    package static var texts: [String] {
        words.dropFirst().map { ForeignText($0).text }
    }

    /// Returns the bytes of a word, or of the value of `--option=value`, by its text.
    package static func bytes(typedAs text: String) -> [UInt8] {
        let values = words.map { word in word.drop { $0 != UInt8(ascii: "=") }.dropFirst() }
        return (words + values.map(Array.init)).first { ForeignText($0).text == text } ?? Array(text.utf8)
    }

    private static var words: [[UInt8]] {
        var words: [[UInt8]] = []
        var pointer = CommandLine.unsafeArgv
        while let word = pointer.pointee {
            words.append(bytes(word))
            pointer += 1
        }
        return words
    }

    /// Returns the bytes of a C string.
    package static func bytes(_ string: UnsafePointer<CChar>) -> [UInt8] {
        UnsafeBufferPointer(start: string, count: strlen(string)).map(UInt8.init(bitPattern:))
    }
}
