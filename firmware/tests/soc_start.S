/* From the boot ROM to main: a stack; variables begin as zeros, which is all that they may. */
  .section .text.start, "ax"
  .globl _start
_start:
  la sp, stack_end
  la t0, bss_begin
  la t1, bss_end
1:
  bgeu t0, t1, 2f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 1b
2:
  call main
3:
  j 3b
