@testable import Checks

/// The function that libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    do {
        try ArgumentChecks.check(Array(UnsafeBufferPointer(start: data, count: size)))
        return 0
    } catch {
        // libFuzzer detects a finding by the end of the process.
        fatalError("\(error)")
    }
}
