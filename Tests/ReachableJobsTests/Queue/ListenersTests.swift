import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableJobs

@Suite(.timeLimit(.minutes(5))) struct ListenersTests {
    @Test func eachStreamGetsEachElement() async {
        let listeners = Listeners<Int>()
        let streams = [listeners.stream(keeping: 9), listeners.stream(keeping: 9)]
        for number in 1...3 { listeners.yield(number) }
        listeners.finish()
        for stream in streams {
            var seen: [Int] = []
            for await number in stream { seen.append(number) }
            #expect(seen == [1, 2, 3])
        }
    }

    @Test func slowReaderLosesTheOldest() async {
        let listeners = Listeners<Int>()
        let stream = listeners.stream(keeping: 2)
        for number in 1...5 { listeners.yield(number) }
        listeners.finish()
        var seen: [Int] = []
        for await number in stream { seen.append(number) }
        #expect(seen == [4, 5])
    }

    @Test func endOfAStreamIsReportedWhenItIsGone() async {
        let listeners = Listeners<Int>()
        let wasEmpty = Recorder<Bool>()
        let reader = Task {
            [stream = listeners.stream(keeping: 1, onEnd: { wasEmpty.record(listeners.isEmpty) })] in
            for await _ in stream {}
        }
        #expect(!listeners.isEmpty)
        reader.cancel()
        await reader.value
        #expect(wasEmpty.value == [true])
        listeners.yield(1)
    }

    @Test func releaseAndFinishEndStreams() async {
        func streamOfReleasedOnes() -> AsyncStream<Int> { Listeners<Int>().stream(keeping: 1) }
        for await _ in streamOfReleasedOnes() { Issue.record("there is no element") }
        let finished = Listeners<Int>()
        finished.finish()
        for await _ in finished.stream(keeping: 1) { Issue.record("there is no element") }
        #expect(finished.isEmpty)
    }
}
