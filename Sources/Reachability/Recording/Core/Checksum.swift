/// CRC-32C, the checksum of iSCSI (RFC 3720 §12.1): finds every damage of up to 32 neighbouring bits.
package enum Checksum {
    /// The remainders of all bytes for Castagnoli's polynomial, bit-reversed.
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ 0x82f6_3b78 }
    }

    /// The checksum of some bytes.
    package static func of(_ bytes: some Sequence<UInt8>) -> UInt32 {
        let table = table
        return ~bytes.reduce(UInt32.max) { $0 >> 8 ^ table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] }
    }
}
