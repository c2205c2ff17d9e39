import Dispatch

@testable import Checks

/// What libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: size))
    let isDone = DispatchSemaphore(value: 0)
    Task.detached {
        do {
            try await RecordingChecks.check(bytes)
        } catch {
            // What libFuzzer takes for a finding is the end of the process.
            fatalError("\(error)")
        }
        isDone.signal()
    }
    isDone.wait()
    return 0
}
