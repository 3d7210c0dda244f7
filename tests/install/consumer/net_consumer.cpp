// A program that includes a header of canigo and calls nothing of it: the least for which another Asio is an error.
#include <canigo/net.hpp>

int main() {}
