/// Makes text from a seed, so that a failure can be repeated.
struct RandomText {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// SplitMix64.
    private mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }

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
