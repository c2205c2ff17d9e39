/// The words of this program's command line as the system hands them over: file names need not be text.
enum RawArguments {
    /// The words behind the first `--`.
    static var behindTerminator: [[UInt8]] {
        var words: [[UInt8]] = []
        var isBehind = false
        var pointer = CommandLine.unsafeArgv
        while let word = pointer.pointee {
            let bytes = Array(UnsafeBufferPointer(start: word, count: length(word)).map(UInt8.init(bitPattern:)))
            if isBehind { words.append(bytes) }
            if bytes == Array("--".utf8) { isBehind = true }
            pointer += 1
        }
        return words
    }

    private static func length(_ word: UnsafePointer<CChar>) -> Int {
        var count = 0
        while word[count] != 0 { count += 1 }
        return count
    }
}
