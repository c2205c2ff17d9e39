/// Exit codes as they are written on the command line: `2`, `2,64` or `2,64,70-79`.
struct ExitCodesArgument: Hashable, Sendable {
    private let ranges: [ClosedRange<Int32>]

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        var ranges: [ClosedRange<Int32>] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let range = Self.range(part) else {
                throw InvalidArgument("exit codes are numbers from 1 to 255, as in 2,64,70-79")
            }
            ranges.append(range)
        }
        self.ranges = ranges
    }

    /// Whether a code is among them.
    func contains(_ code: Int32) -> Bool { ranges.contains { $0.contains(code) } }

    private static func range(_ text: Substring) -> ClosedRange<Int32>? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map(code)
        guard let first = ends.first, let lower = first else { return nil }
        switch ends.count {
        case 1: return lower...lower
        case 2: return ends[1].flatMap { lower <= $0 ? lower...$0 : nil }
        default: return nil
        }
    }

    private static func code(_ text: Substring) -> Int32? {
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let code = Int32(text),
            (1...255).contains(code)
        else { return nil }
        return code
    }
}
