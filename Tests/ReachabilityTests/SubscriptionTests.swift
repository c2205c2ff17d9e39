import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct SubscriptionTests {
    private let ends = Counter()

    private func stream(_ subscription: Subscription<Int>) -> AsyncStream<Int> {
        subscription.stream { [ends] in ends.add() }
    }

    @Test func unreadElementsStayInOrder() async {
        let subscription = Subscription<Int>(limit: 3)
        for number in 1...3 { subscription.yield(number) }
        subscription.finish()
        subscription.yield(4)
        var numbers: [Int] = []
        for await number in stream(subscription) { numbers.append(number) }
        #expect(numbers == [1, 2, 3])
        #expect(ends.value == 1)
    }

    @Test(arguments: [(3, [8, 9, 10]), (1, [10]), (0, [10]), (-5, [10])])
    func theOldestMakeRoom(limit: Int, kept: [Int]) async {
        let subscription = Subscription<Int>(limit: limit)
        for number in 1...10 { subscription.yield(number) }
        subscription.finish()
        var numbers: [Int] = []
        for await number in stream(subscription) { numbers.append(number) }
        #expect(numbers == kept)
    }

    @Test func waitingTaskGetsTheElementAtOnce() async {
        let subscription = Subscription<Int>(limit: 1)
        var published = stream(subscription).makeAsyncIterator()
        for number in 1...100 {
            let yielding = Task { subscription.yield(number) }
            #expect(await published.next() == number)
            await yielding.value
        }
        subscription.finish()
        #expect(await published.next() == nil && ends.value == 1)
        #expect(await published.next() == nil)
    }

    @Test func eachElementIsReadOnce() async {
        let subscription = Subscription<Int>(limit: 1000)
        let stream = stream(subscription)
        let sum = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    var sum = 0
                    for await number in stream { sum += number }
                    return sum
                }
            }
            for number in 1...1000 {
                subscription.yield(number)
                // Lets the readers in between, so that they find the buffer empty as well.
                if number.isMultiple(of: 10) { await Task.yield() }
            }
            subscription.finish()
            return await group.reduce(0, +)
        }
        #expect(sum == 500_500)
    }

    @Test func cancellationEndsTheSubscription() async {
        let subscription = Subscription<Int>(limit: 1)
        let stream = stream(subscription)
        subscription.yield(1)
        let (read, hasRead) = AsyncStream.makeStream(of: Int.self)
        let reading = Task {
            for await number in stream { hasRead.yield(number) }
        }
        var numbers = read.makeAsyncIterator()
        #expect(await numbers.next() == 1)
        reading.cancel()
        await reading.value
        #expect(ends.value == 1)
        subscription.yield(2)
        for await number in stream { Issue.record("\(number) came after the end") }
    }

    @Test func cancelledTaskReadsNothing() async {
        let subscription = Subscription<Int>(limit: 1)
        let stream = stream(subscription)
        let reading = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            for await number in stream { Issue.record("\(number) was not there") }
        }
        await reading.value
        #expect(ends.value == 1)
    }

    @Test func releasedStreamEndsTheSubscription() async {
        let subscription = Subscription<Int>(limit: 1)
        do { _ = stream(subscription) }
        #expect(ends.value == 1, "an unread stream")
        subscription.yield(1)
        for await _ in stream(subscription) { break }
        #expect(ends.value == 2)
    }
}
