import ReachabilityTesting

extension SeededGenerator {
    /// Up to `length` scalars: mostly from `alphabet`, sometimes any at all.
    mutating func text(of alphabet: String, length: Int) -> String {
        let letters = Array(alphabet.unicodeScalars)
        var text = ""
        for _ in 0..<next() % UInt64(length + 1) {
            let letter = letters[Int(next() % UInt64(letters.count))]
            let any = Unicode.Scalar(UInt32(next() % 0x11_0000))
            text.unicodeScalars.append(next() % 8 == 0 ? any ?? letter : letter)
        }
        return text
    }
}
