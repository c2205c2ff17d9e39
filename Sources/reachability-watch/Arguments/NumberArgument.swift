/// A 32-bit number as it is written on the command line: decimal, or hexadecimal behind `0x` as ip-rule(8) prints marks.
struct NumberArgument: Hashable {
    /// The number.
    let value: UInt32

    /// Reads the text.
    init(_ text: String) throws(InvalidArgument) {
        let isHexadecimal = text.hasPrefix("0x") || text.hasPrefix("0X")
        let digits = isHexadecimal ? text.dropFirst(2) : Substring(text)
        // UInt32.init accepts a sign, which is none of a mark's or a user's.
        guard digits.utf8.first != UInt8(ascii: "+"), let value = UInt32(digits, radix: isHexadecimal ? 16 : 10) else {
            throw InvalidArgument("it takes a number from 0 to 4294967295, or a hexadecimal one such as 0x2a")
        }
        self.value = value
    }
}
