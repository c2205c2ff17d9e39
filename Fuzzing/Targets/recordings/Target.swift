import Dispatch

@testable import Checks

/// The function that libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: size))
    let isDone = DispatchSemaphore(value: 0)
    Task.detached {
        do {
            try await RecordingChecks.check(bytes)
        } catch {
            // libFuzzer detects a finding by the end of the process.
            fatalError("\(error)")
        }
        isDone.signal()
    }
    isDone.wait()
    return 0
}
