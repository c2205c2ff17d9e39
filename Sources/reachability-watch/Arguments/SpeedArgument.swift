/// The speed of a replay as it is written on the command line: `1` as it happened, `10`, `0.5`, or `max`.
struct SpeedArgument: Hashable {
    /// How many recorded seconds pass in a second; `nil` for as fast as possible.
    let factor: Double?

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        guard text != "max" else {
            factor = nil
            return
        }
        let isNumber = text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ".") }
        guard isNumber, let factor = Double(text), (0.001...1_000_000).contains(factor) else {
            throw InvalidArgument("a speed is a number from 0.001 to 1000000, such as 1, 10 or 0.5, or the word max")
        }
        self.factor = factor
    }
}
